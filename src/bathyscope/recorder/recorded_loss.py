"""The loss of a loop as a function of output and targets, from what its tape has kept."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.batch import own_loss
from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.nested import copy_tensors, tensors_in
from bathyscope.recorder.tape import Given, NotRecorded, Program, TapeCall, leaves_in, program_of

TARGETS = -1
"""The number under which a program is given the targets."""

_SHAPES = ("reshape", "view", "flatten", "contiguous", "squeeze", "unsqueeze", "ravel")
_LOSSES = frozenset(
    function
    for name in dir(F)
    if (function := getattr(F, name)) and (name.endswith("_loss") or "cross_entropy" in name or
        name in ("kl_div", "binary_cross_entropy_with_logits"))
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLoss:
    """Computes what a loop computed between an output of its model and its loss.

    Attributes:
        program: the calls.
        names: of the functions called, in order.
    """

    program: Program
    names: tuple[str, ...]

    def __call__(self, output: object, targets: object) -> Any:
        """The loss of another output."""
        given = dict(enumerate(tensors_in(output)))
        if isinstance(targets, Tensor):
            given[TARGETS] = targets
        return self.program.run(given)


@dataclass(frozen=True, slots=True, eq=False)
class LossAndTargets:
    """A loss function with its targets, which is None where it reads none."""

    loss: Callable[[Any, Any], Tensor]
    targets: Tensor | None


def objective_of(
    calls: Sequence[TapeCall], output: object, root: Tensor, *, num_samples: int
) -> LossAndTargets:
    """The loss that a loop calls backward on, as a function of an output and of targets.

    Args:
        calls: of the tape after the output.
        output: of the model.
        root: the loss.
        num_samples: in the batch.

    Raises:
        NotRecorded: the tape does not show it.
    """
    if _is_own_loss(output, root):
        return LossAndTargets(own_loss, None)
    given = {id(t): number for number, t in enumerate(tensors_in(output))}
    program = program_of(calls, given, root)
    if isinstance(program.result, Tensor):
        raise NotRecorded("it does not follow from the model's output by functions of torch")
    targets = _targets(calls, program, num_samples)
    if targets is not None and _is_a_place(calls, targets, tuple(tensors_in(output))):
        targets = None
    if targets is not None:
        program = program_of(calls, given | {id(targets): TARGETS}, root)
    known = _known_loss(program)
    program = program.copied()
    names = tuple(getattr(c.func, "__name__", "") for c in program.calls.values())
    loss = known or RecordedLoss(program, names)
    kept = None if targets is None else targets.detach().clone()
    _check(loss, output, kept, root)
    return LossAndTargets(loss, kept)


def _is_own_loss(output: object, root: Tensor) -> bool:
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    first = output[0] if isinstance(output, tuple) and output else None
    return own is root or (first is root and root.ndim == 0)


def _targets(calls: Sequence[TapeCall], program: Program, num_samples: int) -> Tensor | None:
    """Of the tensors that a loss reads beside the output, the one that says what is asked for."""
    every: list[tuple[int, Tensor]] = []
    for call in program.calls.values():
        is_loss = call.func in _LOSSES
        for number, leaf in enumerate(leaves_in((call.args, call.kwargs))):
            if not isinstance(leaf, Tensor) or leaf.requires_grad:
                continue
            if not leaf.ndim or leaf.numel() < num_samples or leaf.numel() % num_samples:
                continue
            first = 0 if is_loss and number <= 1 else 1 if not leaf.is_floating_point() else 2
            every.append((first, leaf))
    if not every:
        return None
    return _unflattened(calls, min(every, key=lambda pair: pair[0])[1], num_samples)


def _is_a_place(calls: Sequence[TapeCall], targets: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Whether targets say no more than where the right one of some similarities stands: always first."""
    if targets.is_floating_point() or not bool((targets == targets.flatten()[:1]).all()):
        return False
    sizes = {t.numel() for t in outputs}
    compared = (
        leaf.numel()
        for call in calls
        if call.func in _LOSSES and any(leaf is targets for leaf in leaves_in(call.args))
        for leaf in leaves_in(call.args[:1])
        if isinstance(leaf, Tensor)
    )
    return any(numel not in sizes for numel in compared)


def _unflattened(calls: Sequence[TapeCall], tensor: Tensor, num_samples: int) -> Tensor:
    """The tensor from which targets were reshaped, if that has one row per sample."""
    made = {id(t): call for call in calls for t in tensors_in(call.output)}
    while len(tensor) != num_samples and id(tensor) in made:
        call = made[id(tensor)]
        before = call.args[0] if call.args else None
        name = getattr(call.func, "__name__", "")
        if name not in _SHAPES or not isinstance(before, Tensor) or not before.ndim:
            break
        if before is tensor or before.numel() != tensor.numel():
            break
        tensor = before
    return tensor


def _known_loss(program: Program) -> Callable[[Any, Any], Tensor] | None:
    """A loss of torch itself, where the program is nothing but one call of it on output and targets."""
    if len(program.calls) != 1:
        return None
    (call,) = program.calls.values()
    if isinstance(call.func, int) or call.func not in _LOSSES:
        return None
    try:
        bound = dict(inspect.signature(call.func).bind(*call.args, **call.kwargs).arguments)
    except (TypeError, ValueError):
        return None
    if bound.pop("input", None) != Given(0) or bound.pop("target", None) != Given(TARGETS):
        return None
    if any(isinstance(leaf, Given) for leaf in leaves_in(bound)):
        return None
    default = inspect.signature(call.func).parameters
    options = {
        name: value.detach().clone() if isinstance(value, Tensor) else value
        for name, value in bound.items()
        if value is not default[name].default
    }
    return functools.partial(call.func, **options) if options else call.func


def _check(
    loss: Callable[[Any, Any], Tensor], output: object, targets: Tensor | None, root: Tensor
) -> None:
    """Whether it gives the loss that the loop had.

    Raises:
        NotRecorded: it does not.
    """
    there = float(root.detach())
    try:
        with torch.no_grad(), preserve_random_state():
            value = float(loss(copy_tensors(output), targets))
    except Exception as error:  # a user's own function may raise anything
        raise NotRecorded(f"computed again it raises {type(error).__name__}") from error
    is_lost = math.isnan(value) and math.isnan(there)
    if not is_lost and not math.isclose(value, there, rel_tol=1e-3, abs_tol=1e-6):
        raise NotRecorded(f"computed again it is {value:.4g} rather than {there:.4g}")
