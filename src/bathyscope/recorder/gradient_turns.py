"""The norms of gradients at every step, for which large tensors are read in turns."""

import math
from collections.abc import Sequence

from torch import Tensor

from bathyscope.recorder.groups import Norms, ParameterGroups

_TURNS = 4
"""A large tensor is read at one step of these; its norm stands for the steps in between."""
_LARGE = 1 << 14
# A square beyond this many times the largest so far, or below this fraction of the last one, stirs.
_RISEN, _FALLEN = 4.0, 1e-4


class GradientTurns:
    """Reads the gradients of all small tensors, and of a fourth of the large ones.

    Reading a large model's gradients takes as long as its memory: nothing else of a step that is watched
    does. Where what is read is not as before, all the others are read at once: a gradient that explodes or
    vanishes shows in a bias as in the weight beside it.
    """

    def __init__(self, groups: ParameterGroups) -> None:
        self._groups = groups
        large = [i for i in groups.long if groups.parameters[i].numel() >= _LARGE]
        self._large = tuple(large)
        self._turns = tuple(
            tuple(i for i in groups.long if i not in large or i in large[turn::_TURNS])
            for turn in range(_TURNS)
        )
        self._turn = 0
        self._squares: list[float] = []
        self._highest: list[float] = []

    def norms(self, beside: Sequence[Tensor], *, of_all: bool) -> tuple[Norms, list[float]]:
        """Norms by group, with scalars that are on a device; `of_all` where none may be an earlier one."""
        gradients = [p.grad for p in self._groups.parameters]
        if not self._large or beside or not self._groups.can_be_squared(gradients):
            self._squares = []
            return self._groups.gradient_norms_beside(beside)
        if of_all or not self._squares:
            squares = self._groups.squares(gradients, self._groups.long)
        else:
            turn = self._turns[self._turn]
            self._turn = (self._turn + 1) % _TURNS
            squares = self._groups.squares(gradients, turn, self._squares)
            if self._stirs(squares):
                others = tuple(i for i in self._large if i not in turn)
                squares = self._groups.squares(gradients, others, squares, with_short=False)
        self._squares = squares
        self._highest = [*map(max, squares, self._highest)] if self._highest else squares
        return self._groups.norms_of(squares), []

    def _stirs(self, squares: list[float]) -> bool:
        for now, before, highest in zip(squares, self._squares, self._highest, strict=True):
            if not _FALLEN * before <= now <= _RISEN * highest:
                return True
        return not math.isfinite(sum(squares))
