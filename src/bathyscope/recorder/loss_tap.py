"""Hearing the loss of a loop that hands it to nobody: whatever `backward` is called on."""

import weakref
from collections.abc import Callable
from threading import RLock
from typing import Any

import torch
from torch import Tensor

Listener = Callable[[Tensor], None]

_listeners: list[Listener] = []
_lock = RLock()
_originals: dict[str, Any] = {}
_scales: dict[int, tuple["weakref.ref[Tensor]", Tensor]] = {}


def listen(listener: Listener) -> Callable[[], None]:
    """Call the listener with every scalar that a backward pass starts from, before it runs.

    While anybody listens, `torch.autograd.backward` (which `Tensor.backward` calls) is wrapped, and
    `torch.amp.GradScaler.scale` so that a scaled loss is heard as it was before. With the last
    listener both are put back.

    Returns:
        What ends it; a second call does nothing.
    """
    with _lock:
        if not _listeners:
            _wrap()
        _listeners.append(listener)

    def stop() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)
                if not _listeners:
                    _unwrap()

    return stop


def _wrap() -> None:
    backward = _originals["backward"] = torch.autograd.backward
    scale = _originals["scale"] = torch.amp.GradScaler.scale

    def heard_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        _tell(tensors)
        backward(tensors, *args, **kwargs)

    def heard_scale(self: torch.amp.GradScaler, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        if isinstance(scaled, Tensor) and self._scale is not None:
            _scales[id(scaled)] = (weakref.ref(scaled), self._scale.detach())
        return scaled

    torch.autograd.backward = heard_backward
    torch.amp.GradScaler.scale = heard_scale  # type: ignore[method-assign]


def _unwrap() -> None:
    torch.autograd.backward = _originals.pop("backward")
    torch.amp.GradScaler.scale = _originals.pop("scale")  # type: ignore[method-assign]
    _scales.clear()


def _tell(tensors: Any) -> None:
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if len(roots) != 1 or roots[0].numel() != 1:
        return
    root = roots[0]
    value = root.detach()
    reference, scale = _scales.pop(id(root), (None, None))
    if reference is not None and reference() is root and scale is not None:
        value = value / scale
    for listener in tuple(_listeners):
        listener(value)
