"""The loss of a loop that passes it to nobody: whatever `backward` is called on."""

import weakref
from collections.abc import Callable
from threading import RLock
from typing import Any

import torch
from torch import Tensor

LossHook = Callable[[Tensor], None]

_hooks: list[LossHook] = []
_lock = RLock()
_originals: dict[str, Any] = {}
_last_scale: list[Tensor | None] = []
_scales: dict[int, tuple["weakref.ref[Tensor]", Tensor]] = {}


def on_loss(hook: LossHook) -> Callable[[], None]:
    """Call a hook with every scalar that a backward pass starts from, before it runs.

    While there is any, `torch.autograd.backward` (which `Tensor.backward` calls) is wrapped, and
    `torch.amp.GradScaler.scale` so that a scaled loss is given as it was before. With the last hook
    both are put back.

    Returns:
        What removes the hook; a second call does nothing.
    """
    with _lock:
        if not _hooks:
            _wrap()
        _hooks.append(hook)

    def remove() -> None:
        with _lock:
            if hook in _hooks:
                _hooks.remove(hook)
                if not _hooks:
                    _unwrap()

    return remove


def scale_of_loss() -> Tensor | None:
    """By which a GradScaler has multiplied the loss of the backward pass that runs or ran last."""
    return _last_scale[0] if _last_scale else None


def _wrap() -> None:
    backward = _originals["backward"] = torch.autograd.backward
    scale = _originals["scale"] = torch.amp.GradScaler.scale

    def observed_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        _call_hooks(tensors)
        backward(tensors, *args, **kwargs)

    def observed_scale(self: torch.amp.GradScaler, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        if isinstance(scaled, Tensor) and self.is_enabled() and self._scale is not None:
            _scales[id(scaled)] = (weakref.ref(scaled), self._scale.detach())
        return scaled

    torch.autograd.backward = observed_backward
    torch.amp.GradScaler.scale = observed_scale  # type: ignore[method-assign]


def _unwrap() -> None:
    torch.autograd.backward = _originals.pop("backward")
    torch.amp.GradScaler.scale = _originals.pop("scale")  # type: ignore[method-assign]
    _scales.clear()
    _last_scale.clear()


def _call_hooks(tensors: Any) -> None:
    roots = tensors if isinstance(tensors, (tuple, list)) else [tensors]
    # an edge of the graph, which torch takes in place of a tensor, has no value
    if len(roots) != 1 or not isinstance(roots[0], Tensor) or roots[0].numel() != 1:
        return
    root = roots[0]
    value = root.detach()
    reference, scale = _scales.pop(id(root), (None, None))
    if reference is None or reference() is not root:
        scale = None
    if scale is not None:
        value = value / scale
    _last_scale[:] = [scale]
    for hook in tuple(_hooks):
        hook(value)
