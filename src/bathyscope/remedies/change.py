"""A change to a model or an optimizer that can be taken back, bit for bit."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.hooks import Hooks


@dataclass(slots=True)
class Change:
    """What was done, to which blocks, and how to take it back.

    Attributes:
        what: in words.
        blocks: their labels.
        optimizer: the one to train with from now on, where the change made a new one.

    Examples:
        >>> layer = nn.Linear(2, 2)
        >>> before = layer.weight.detach().clone()
        >>> change = Change("halved").keep(layer.weight)
        >>> _ = layer.weight.data.mul_(0.5)
        >>> change.undo()
        >>> torch.equal(layer.weight, before)
        True
    """

    what: str
    blocks: tuple[str, ...] = ()
    optimizer: torch.optim.Optimizer | None = None
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def keep(self, *tensors: Tensor) -> "Change":
        """Remember the values of parameters and buffers that are about to change."""
        for tensor in tensors:
            self._undo.append(_restorer(tensor, tensor.detach().clone()))
        return self

    def undone_by(self, action: Callable[[], None]) -> "Change":
        """Remember what takes the change back; actions run last first."""
        self._undo.append(action)
        return self

    def add_hooks(self) -> Hooks:
        """Hooks that are removed when the change is taken back."""
        hooks = Hooks()
        self._undo.append(hooks.remove)
        return hooks

    def keep_value(self, holder: dict[str, Any], key: str) -> None:
        """Remember the value under a key, such as a setting in a group of an optimizer."""
        self._undo.append(partial(operator.setitem, holder, key, holder[key]))

    def replace_module_(self, model: nn.Module, name: str, module: nn.Module) -> None:
        """Put another module in the place of that name."""
        former = model.get_submodule(name)
        model.set_submodule(name, module)
        self.undone_by(lambda: model.set_submodule(name, former))

    def undo(self) -> None:
        """Put everything back as it was; a second call does nothing."""
        while self._undo:
            self._undo.pop()()


def _restorer(tensor: Tensor, values: Tensor) -> Callable[[], None]:
    def put_back() -> None:
        with torch.no_grad():
            tensor.copy_(values)

    return put_back
