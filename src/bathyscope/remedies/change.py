"""A change to a model or an optimizer that can be taken back, bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(slots=True)
class Change:
    """What was done, to which blocks, and how to take it back.

    Attributes:
        what: in words.
        blocks: their labels.
        structural: whether the network computes something else with the same weights, which a state
            dict does not hold.

    Examples:
        >>> layer = nn.Linear(2, 2)
        >>> before = layer.weight.detach().clone()
        >>> change = Change("halved").keeping(layer.weight)
        >>> _ = layer.weight.data.mul_(0.5)
        >>> change.undo()
        >>> torch.equal(layer.weight, before)
        True
    """

    what: str
    blocks: tuple[str, ...] = ()
    structural: bool = False
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def keeping(self, *parameters: nn.Parameter) -> "Change":
        """Remember the values of parameters that are about to change."""
        for parameter in parameters:
            self._undo.append(_putting_back(parameter, parameter.detach().clone()))
        return self

    def undone_by(self, action: Callable[[], None]) -> "Change":
        """Remember what takes the change back; actions run last first."""
        self._undo.append(action)
        return self

    def undo(self) -> None:
        """Put everything back as it was; a second call does nothing."""
        while self._undo:
            self._undo.pop()()


def _putting_back(parameter: nn.Parameter, values: Tensor) -> Callable[[], None]:
    def put_back() -> None:
        with torch.no_grad():
            parameter.copy_(values)

    return put_back
