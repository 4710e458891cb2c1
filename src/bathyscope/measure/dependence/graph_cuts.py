"""The lines of a forward pass at which the graph of gradients is cut."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.caller import user_line
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, predictions, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.dependence.eval_pass import few_of
from bathyscope.measure.dependence.parameter_lists import graph_leaves

_DETACHES = {
    Tensor.detach: "detach()",
    torch.detach: "detach()",
    Tensor.data.__get__: ".data",  # type: ignore[attr-defined]
}
_MOST_LINES = 8
_MOST_NAMED = 3


def graph_cuts(model: nn.Module, batch: Batch, *, unreached: Collection[str]) -> tuple[str, ...]:
    """The user's lines that keep a gradient from parameters without one.

    With every `detach()`, `.data` and `no_grad()` of the pass undone, the output's graph holds some of
    these parameters. A line cuts where, with all undone but this one, it holds fewer.

    Args:
        model: any module, left as it was.
        batch: inputs and targets; few samples are run.
        unreached: names of trainable parameters without a gradient.

    Returns:
        `file:line (what it calls)`, in the order of the pass; at most three.
    """
    model = unwrap(model)
    wanted = frozenset(id(model.get_parameter(name)) for name in unreached)
    inputs, _ = few_of(batch[0])
    with preserve_model(model, copy_parameters=False), torch.enable_grad():
        undone = _Undoing()
        reached = _num_reached(model, inputs, wanted, undone)
        lines = list(undone.lines)[:_MOST_LINES] if reached else []
        cuts = [
            line
            for line in lines
            if _num_reached(model, inputs, wanted, _Undoing(but=line)) < reached
        ]
    return tuple(f"{line} ({undone.lines[line]})" for line in cuts[:_MOST_NAMED])


def _num_reached(
    model: nn.Module, inputs: object, wanted: frozenset[int], undoing: "_Undoing"
) -> int:
    try:
        with undoing:
            output = predictions(run_forward(model, copy_tensors(inputs)))
    except BathyscopeError:  # what is written through `.data` may not be written in the graph
        return 0
    return 0 if output is None else len(wanted & {id(leaf) for leaf in graph_leaves(output)})


class _Undoing(TorchFunctionMode):
    """Within, what takes a tensor out of the graph leaves it there; `lines` says where it was."""

    def __init__(self, *, but: str | None = None) -> None:
        super().__init__()
        self.but = but
        self.lines: dict[str, str] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DETACHES:
            return args[0] if self._is_undone(args, _DETACHES[func]) else func(*args, **kwargs)
        if torch.is_grad_enabled() or _writes(func, kwargs):
            return func(*args, **kwargs)
        if not self._is_undone((args, kwargs), "no_grad()"):
            return func(*args, **kwargs)
        with torch.enable_grad():
            return func(*args, **kwargs)

    def _is_undone(self, arguments: object, call: str) -> bool:
        if not any(t.requires_grad for t in tensors_in(arguments)):
            return False
        line = user_line()
        if line is not None:
            self.lines.setdefault(line, call)
        return line is not None and line != self.but


def _writes(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Whether a function writes to a tensor, which may be a buffer or a parameter."""
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__set__", "__setitem__") or kwargs.get("out") is not None
