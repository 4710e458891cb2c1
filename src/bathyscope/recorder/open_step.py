"""The step in progress: what is known of it before it is closed."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bathyscope.recorder.groups import Norms
from bathyscope.recorder.samples import SampleObserver
from bathyscope.recorder.step_observer import StepObserver

_OF_DOT = (torch.float32, torch.float64)


@dataclass(slots=True)
class OpenStep:
    """What is known so far of the step in progress."""

    passes: int = 0
    passes_before_update: int = 0
    inputs: tuple[tuple[object, ...], dict[str, object]] = ((), {})
    samples: int = 0
    input_norm: Tensor | None = None
    input_square: float = math.nan
    input_entries: int = 1
    started_from: Tensor | None = None
    starts: int = 0  # backward passes that began at a scalar
    is_usual: bool = False  # the loss is taken for the model's own
    losses: list[float] = field(default_factory=list)
    losses_there: list[Tensor] = field(default_factory=list)
    location: str | None = None
    gradients: Norms | None = None
    rate: float = math.nan
    observer: SampleObserver | None = None
    blocks_observer: StepObserver | None = None

    def take_input(self, x: Tensor) -> None:
        """How large the input is: at once where it lies on the CPU, with the gradients elsewhere."""
        self.input_entries = x.numel()
        values = x.detach()
        if x.is_cpu and x.dtype in _OF_DOT and x.is_contiguous():
            flat = values.view(-1)  # a dot product reads it in a third of the time of a norm
            self.input_square = torch.dot(flat, flat).item()
            return
        if values.dtype not in _OF_DOT:
            values = values.to(torch.promote_types(x.dtype, torch.float32))
        norm = torch.linalg.vector_norm(values)
        if norm.is_cpu:
            self.input_square = norm.item() ** 2
        else:
            self.input_norm = norm

    def scalars_there(self) -> list[Tensor]:
        """The numbers that are still on a device."""
        return [*self.losses_there, *([] if self.input_norm is None else [self.input_norm])]

    def take(self, numbers: list[float]) -> None:
        """The numbers of `scalars_there`, fetched."""
        if self.input_norm is not None:
            self.input_square, self.input_norm = numbers[-1] ** 2, None
            numbers = numbers[:-1]
        self.losses += numbers
        self.losses_there.clear()
