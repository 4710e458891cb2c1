"""The functions of torch that a loop calls between its model's output and its loss, to be run again.

A loop computes its loss as it likes: by a function of torch, a module, or by hand. The tape keeps the calls
with their arguments; a `RecordedLoss` made from it computes the same loss of another output.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from bathyscope.core.global_state import is_measuring
from bathyscope.core.nested import tensors_in

_MOST_CALLS = 4000


@dataclass(slots=True, eq=False)
class TapeCall:
    """One call of a function or a module; its tensors are kept, so that their ids stay theirs."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    with_grad: bool
    copies: Mapping[int, Tensor] = field(default_factory=dict)
    """By id: the tensors that went in as they were before, which a module may have overwritten."""

    @property
    def is_module(self) -> bool:
        """Whether a module of the loop was called, with all that it calls itself."""
        return isinstance(self.func, nn.Module)


class Tape(TorchFunctionMode):
    """Keeps every call of a function of torch while it is on; it changes none."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[TapeCall] = []
        self.is_full = False
        self._is_kept = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function, and keep what went in and came out."""
        output = func(*args, **(kwargs or {}))
        if self._is_kept and not is_measuring():
            self.add(func, args, kwargs or {}, output)
        return output

    def add(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
        copies: Mapping[int, Tensor] | None = None,
    ) -> None:
        """Keep a call."""
        if len(self.calls) >= _MOST_CALLS:
            self.is_full = True
            return
        with_grad = torch.is_grad_enabled()
        self.calls.append(TapeCall(func, args, dict(kwargs), output, with_grad, copies or {}))

    def start(self) -> None:
        """Keep calls from here on."""
        if not self._is_on_stack():
            _push_mode(self)
        self._is_kept = True

    def pause(self) -> None:
        """Keep none until `start`; modes of the user's own stay where they are."""
        self._is_kept = False
        if not self._is_on_stack():
            return  # inside of a call that it hands on: it is taken away later
        above = []
        while (top := _pop_mode()) is not self:
            above.append(top)
        for mode in reversed(above):
            _push_mode(mode)

    def _is_on_stack(self) -> bool:
        number = torch._C._len_torch_function_stack()
        return any(torch._C._get_function_stack_at(i) is self for i in range(number))


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor of the model's output, or the targets (number −1)."""

    number: int


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that an earlier call of the program gives."""

    call: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class ProgramCall:
    """A call with references in place of tensors that earlier calls give; a number stands for a module."""

    func: Callable[..., Any] | int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    with_grad: bool


@dataclass(slots=True, eq=False)
class Program:
    """Calls in order, and where their result is."""

    calls: dict[int, ProgramCall] = field(default_factory=dict)
    result: object = None

    @property
    def given(self) -> set[int]:
        """Numbers of the given tensors that it reads."""
        values = [(call.args, call.kwargs) for call in self.calls.values()]
        leaves = leaves_in((values, self.result))
        return {leaf.number for leaf in leaves if isinstance(leaf, Given)}

    def copied(self) -> "Program":
        """The same with copies of the tensors that it holds: the loop may overwrite them."""
        copies: dict[int, Tensor] = {}

        def copy(value: object) -> object:
            if isinstance(value, Tensor):
                if id(value) not in copies:
                    copies[id(value)] = value.detach().clone()
                return copies[id(value)]
            return value

        calls = {
            index: ProgramCall(
                c.func, map_leaves(c.args, copy), map_leaves(c.kwargs, copy), c.with_grad
            )
            for index, c in self.calls.items()
        }
        return Program(calls, map_leaves(self.result, copy))

    def run(self, given: Mapping[int, Tensor], *, parts: Sequence[nn.Module] = ()) -> Any:
        """The result, for other tensors in place of those given."""
        made: dict[int, list[Tensor]] = {}

        def resolve(value: object) -> object:
            if isinstance(value, Given):
                return given[value.number]
            return made[value.call][value.number] if isinstance(value, Made) else value

        for index, call in self.calls.items():
            args, kwargs = map_leaves(call.args, resolve), map_leaves(call.kwargs, resolve)
            with torch.set_grad_enabled(call.with_grad and torch.is_grad_enabled()):
                func = parts[call.func] if isinstance(call.func, int) else call.func
                made[index] = list(tensors_in(func(*args, **kwargs)))
        return map_leaves(self.result, resolve)


def map_leaves(value: Any, change: Callable[[object], object]) -> Any:
    """Nested tuples, lists and dicts with every other value changed, in the same form."""
    if isinstance(value, (tuple, list)):
        items = [map_leaves(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) is dict:
        return {key: map_leaves(item, change) for key, item in value.items()}
    return change(value)


def leaves_in(value: object) -> Iterator[object]:
    """Every value in nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves_in(item)
    elif type(value) is dict:
        for item in value.values():
            yield from leaves_in(item)
    else:
        yield value


class NotRecorded(Exception):
    """Why a tape does not give the loss, as half a sentence."""


def program_of(calls: Sequence[TapeCall], given: Mapping[int, int], result: object) -> Program:
    """The calls on which a result depends, as a function of the tensors given.

    Args:
        calls: in order.
        given: id of a tensor, and the number under which it will be given.
        result: a nested value of tensors.

    Raises:
        NotRecorded: a call writes into a tensor that was not made on the tape.
    """
    where: dict[int, object] = {key: Given(number) for key, number in given.items()}
    every: dict[int, ProgramCall] = {}
    for index, call in enumerate(calls):
        inputs = [t for t in leaves_in((call.args, call.kwargs)) if isinstance(t, Tensor)]
        if not any(id(t) in where for t in inputs):
            continue  # the same whatever is given
        if _writes(call) and call.output is None:
            raise NotRecorded("it writes into a part of a tensor in place")

        def refer(value: object) -> object:
            if isinstance(value, Tensor):
                return where.get(id(value), value)
            return value

        every[index] = ProgramCall(
            call.func, map_leaves(call.args, refer), map_leaves(call.kwargs, refer), call.with_grad
        )
        if _writes(call) and inputs and id(inputs[0]) not in where:
            raise NotRecorded("it writes into a tensor of yours in place")
        for number, tensor in enumerate(tensors_in(call.output)):
            if id(tensor) not in given or _writes(call):
                where[id(tensor)] = Made(index, number)
    program = Program(
        result=map_leaves(result, lambda v: where.get(id(v), v) if isinstance(v, Tensor) else v)
    )
    needed = {ref.call for ref in leaves_in(program.result) if isinstance(ref, Made)}
    for index in sorted(every, reverse=True):
        if index in needed:
            one = every[index]
            needed |= {r.call for r in leaves_in((one.args, one.kwargs)) if isinstance(r, Made)}
    program.calls = {index: call for index, call in every.items() if index in needed}
    return program


def _writes(call: TapeCall) -> bool:
    """Whether it is a function that changes its first argument."""
    name = getattr(call.func, "__name__", "")
    is_dunder = name.startswith("__") and name.endswith("__")
    if is_dunder:
        return name in ("__setitem__", "__set__") or (name.startswith("__i") and name not in (
            "__invert__", "__index__", "__int__", "__iter__"))  # fmt: skip
    return name.endswith("_") and not name.endswith("__")
