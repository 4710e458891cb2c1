"""The loss of a loop that passes it to nobody: whatever `backward` is called on."""

import weakref
from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class LossHook:
    """A listener that calls a function with every scalar that a backward pass starts from, before it runs.

    A loss that a GradScaler has scaled is given as it was before.

    Args:
        hook: the function.
        on_failure: called with what it raises.

    Attributes:
        scale: by which a GradScaler has multiplied the loss of the backward pass that runs or ran last.
    """

    wants_lines = awaits_backward = False

    def __init__(
        self, hook: Callable[[Tensor], None], on_failure: Callable[[Exception], None]
    ) -> None:
        self.scale: Tensor | None = None
        self.failed = on_failure
        self.handlers: Mapping[str, Callable[..., None]] = {
            "before_backward": self._before_backward,
            "loss_scaled": self._loss_scaled,
        }
        self._hook = hook
        self._scales: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def _loss_scaled(self, scaler: torch.amp.GradScaler, loss: object, scaled: object) -> None:
        if isinstance(scaled, Tensor) and scaler._scale is not None:
            self._scales[id(scaled)] = (weakref.ref(scaled), scaler._scale.detach())

    def _before_backward(self, tensors: object, line: str | None) -> None:
        roots = tensors if isinstance(tensors, (tuple, list)) else [tensors]
        # an edge of the graph, which torch takes in place of a tensor, has no value
        if len(roots) != 1 or not isinstance(roots[0], Tensor) or roots[0].numel() != 1:
            return
        root = roots[0]
        value = root.detach()
        reference, scale = self._scales.pop(id(root), (None, None))
        self.scale = scale if reference is not None and reference() is root else None
        self._hook(value if self.scale is None else value / self.scale)
