"""Parameters by the place they belong to, a block or outside of all, and the norms of their gradients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import modules_of, unwrap
from bathyscope.core.fetch import fetch
from bathyscope.core.processes import Processes
from bathyscope.linalg.norms import norms_of

_SHORT = 4096  # entries of a vector that is put together with others,
_MANY = 16  # of which there are this many at least: fewer are read one by one
_VERSION = attrgetter("_version")

Norms = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class ParameterGroups:
    """Trainable parameters by place, in the order in which the model registered them.

    Attributes:
        labels: a block's label, or the name of a module outside all blocks.
        parameters: all of them, group after group.
        starts: where each group begins among them.
        ids: of the parameters, to know an optimizer that holds one.
        group: the processes among which the parameters are shared out, if any.
        in_shards: whether any of them is there in parts only.
        short, long: the places among the parameters of short vectors and of all others.
        short_starts: where each short vector begins, put one after the other.
    """

    labels: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]
    starts: tuple[int, ...]
    ids: frozenset[int]
    group: Processes | None = None
    in_shards: bool = False
    short: tuple[int, ...] = ()
    long: tuple[int, ...] = ()
    short_starts: tuple[int, ...] = ()

    def weight_norms(self) -> Norms:
        """‖w‖₂ of every group."""
        with torch.no_grad():
            return self._norms(self.parameters)

    def gradient_norms(self) -> Norms:
        """‖∂E/∂w‖₂ of every group; −1 where no parameter of the group has a gradient."""
        return self.gradient_norms_beside([])[0]

    def gradient_norms_beside(self, beside: Sequence[Tensor]) -> tuple[Norms, list[float]]:
        """The norms of the gradients, and scalars that come with them in one transfer from a device."""
        numbers: list[float] = []
        return self._norms([p.grad for p in self.parameters], beside, numbers), numbers

    def has_gradients(self) -> bool:
        """Whether any parameter has a gradient."""
        return any(p.grad is not None for p in self.parameters)

    def versions(self) -> tuple[int, ...]:
        """How often each parameter was written, and where it lies: equal if nobody wrote to any."""
        return (*map(_VERSION, self.parameters), *map(Tensor.data_ptr, self.parameters))

    def _norms(
        self,
        tensors: Sequence[Tensor | None],
        beside: Sequence[Tensor] = (),
        numbers: list[float] | None = None,
    ) -> Norms:
        if not tensors:
            return np.zeros(0)  # every parameter is frozen
        # of hundreds of tensors at every step: what is asked of each of them counts
        values = [t for t in tensors if t is not None and not t.is_sparse]
        on_cpu = not values or (values[0].is_cpu and values[-1].is_cpu)
        if beside and (on_cpu or self.in_shards) and numbers is not None:
            numbers += [number for part in fetch(beside) for number in part]
        if len(values) == len(tensors) and not self.in_shards and on_cpu:
            return self.norms_of(self.squares(values, self.long))
        is_there = np.array([t is not None and not t.is_sparse for t in tensors])
        squares = np.zeros(len(tensors))
        if values:
            if self.in_shards:
                values = [t.to_local() if hasattr(t, "to_local") else t for t in values]
            if on_cpu or self.in_shards:
                squares[is_there] = self._squares_of_shards(values)
            else:
                fetched = fetch([*norms_of(values), *beside])
                squares[is_there] = np.square([norm for (norm,) in fetched[: len(values)]])
                if numbers is not None:
                    numbers += [number for part in fetched[len(values) :] for number in part]
        missing = np.logical_and.reduceat(~is_there, self.starts)
        return np.where(missing, -1.0, np.sqrt(np.add.reduceat(squares, self.starts)))

    def _squares_of_shards(self, tensors: list[Tensor]) -> Norms:
        """‖t‖₂² of each; of a shard with those of the other processes."""
        result = torch.tensor(
            [n for (n,) in fetch(norms_of(tensors))], dtype=torch.float64, device="cpu"
        ).square()
        if self.group is not None and self.in_shards:
            result = self.group.sum(result)
        numbers: Norms = result.cpu().numpy()
        return numbers

    def can_be_squared(self, tensors: Sequence[Tensor | None]) -> bool:
        """Whether `squares` takes them: one for every parameter, whole and on the CPU."""
        return not self.in_shards and all(
            t is not None and t.is_cpu and not t.is_sparse for t in tensors
        )

    def squares(
        self,
        tensors: Sequence[Tensor | None],
        long: Sequence[int],
        before: Sequence[float] = (),
        *,
        with_short: bool = True,
    ) -> list[float]:
        """‖t‖₂² of a tensor for every parameter; of the long ones at these places, the others as before.

        The many short ones, biases and the scales of norms, are put together first: a call for each
        would cost more than its numbers.
        """
        result = list(before) or [0.0] * len(tensors)
        for i, square in zip(long, _long_squares([tensors[i] for i in long]), strict=True):  # type: ignore[misc]
            result[i] = square
        if self.short and with_short:
            numbers = torch.cat([tensors[i] for i in self.short]).double().numpy()  # type: ignore[misc]
            short = np.add.reduceat(np.square(numbers), self.short_starts).tolist()
            for i, square in zip(self.short, short, strict=True):
                result[i] = square
        return result

    def norms_of(self, squares: list[float]) -> Norms:
        """Norms by group, from the squares of those of their parameters."""
        if len(squares) > _MANY:
            return np.sqrt(np.add.reduceat(squares, self.starts))
        # of few tensors: numbers of Python, for which numpy would take longer
        ends = (*self.starts[1:], len(squares))
        return np.array([sqrt(sum(squares[a:b])) for a, b in zip(self.starts, ends, strict=True)])


def _long_squares(tensors: list[Tensor]) -> list[float]:
    if all(t.dtype is torch.float32 for t in tensors):
        # as exact as a norm, and reads what lies beyond the caches a tenth to a quarter faster
        flats = [t if t.ndim == 1 else t.reshape(-1) for t in tensors]
        return [torch.dot(flat, flat).item() for flat in flats]
    return [norm.item() ** 2 for norm in norms_of(tensors)]


def parameter_groups(
    model: nn.Module, blocks: Blocks, *, group: Processes | None = None
) -> ParameterGroups:
    """The trainable parameters by block; those outside all blocks by the module that holds them.

    A shared parameter counts where it comes first.

    Examples:
        >>> from bathyscope.core import blocks_of
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> parameter_groups(net, blocks_of(net, torch.zeros(1, 4))).labels
        ('0', '2')
    """
    model = unwrap(model)
    home = {
        id(parameter): block.label
        for block in reversed(tuple(blocks))
        for module in modules_of(model, block).values()
        for parameter in module.parameters(recurse=False)
    }
    result: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outside = name.rpartition(".")[0] or name
            result.setdefault(home.get(id(parameter), outside), []).append(parameter)
    ordered = tuple(p for parameters in result.values() for p in parameters)
    is_short = [p.dim() == 1 and 0 < p.numel() <= _SHORT for p in ordered]
    if sum(is_short) < _MANY:
        is_short = [False] * len(ordered)
    short = tuple(i for i, is_one in enumerate(is_short) if is_one)
    long = tuple(i for i, is_one in enumerate(is_short) if not is_one)
    return ParameterGroups(
        labels=tuple(result),
        parameters=ordered,
        starts=_starts([len(parameters) for parameters in result.values()]),
        ids=frozenset(map(id, ordered)),
        group=group,
        in_shards=any(hasattr(p, "to_local") for p in ordered),
        short=short,
        long=long,
        short_starts=_starts([ordered[i].numel() for i in short]),
    )


def _starts(lengths: list[int]) -> tuple[int, ...]:
    """Where each begins, one after the other."""
    return tuple(int(start) for start in np.cumsum([0, *lengths])[:-1])


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
