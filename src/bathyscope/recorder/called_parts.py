"""The passes of a step as one call of one model: a loop may call its model twice, or only parts of it."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.nested import tensors_in
from bathyscope.recorder.tape import (
    NotRecorded,
    Program,
    ProgramCall,
    TapeCall,
    leaves_in,
    map_leaves,
    program_of,
)


@dataclass(frozen=True, slots=True, eq=False)
class Called:
    """One call: `model(*inputs)` gave `output`, and `calls` made the loss of it."""

    model: nn.Module
    inputs: Any
    output: Any
    calls: tuple[TapeCall, ...]


class CalledParts(nn.Module):
    """Runs the passes of a step one after the other, with what the loop computed between them.

    Args:
        parts: the modules that were called, each once.
        program: the calls; those of a module have its number as their function.
    """

    def __init__(self, parts: Sequence[nn.Module], program: Program) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.program = program

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What the passes give that the loss reads, the last one first."""
        result: tuple[Tensor, ...] = self.program.run(
            dict(enumerate(inputs)), parts=tuple(self.parts)
        )
        return result


def called_parts(calls: Sequence[TapeCall], root: Tensor) -> Called:
    """The passes that a loss depends on, as one call.

    Raises:
        NotRecorded: the loss depends on none.
    """
    needed = _needed(calls, root)
    passes = [i for i in needed if calls[i].is_module]
    if not passes:
        raise NotRecorded("it does not follow from the output of a model by functions of torch")
    if len(passes) == 1:
        call = calls[passes[0]]
        inputs = _inputs(call)
        if inputs is not None:
            assert isinstance(call.func, nn.Module)
            return Called(call.func, inputs, call.output, tuple(calls[passes[0] + 1 :]))
    made = _made_from_passes(calls)
    inputs = [
        leaf
        for i in passes
        for leaf in leaves_in((calls[i].args, calls[i].kwargs))
        if isinstance(leaf, Tensor) and id(leaf) not in made
    ]
    inputs = list({id(t): t for t in inputs}.values())
    others = [call for i, call in enumerate(calls) if not call.is_module]
    outputs = [t for i in reversed(passes) for t in tensors_in(calls[i].output)]
    loss = program_of(others, {id(t): n for n, t in enumerate(outputs)}, root)
    read = loss.given
    outputs = [t for n, t in enumerate(outputs) if n in read]
    program = program_of(calls, {id(t): n for n, t in enumerate(inputs)}, tuple(outputs))
    if any(isinstance(leaf, Tensor) for leaf in leaves_in(program.result)):
        raise NotRecorded("a pass takes no input that is known")
    parts: dict[int, nn.Module] = {}
    for index, one in program.calls.items():
        if isinstance(one.func, nn.Module):
            parts.setdefault(id(one.func), one.func)
            number = list(parts).index(id(one.func))
            program.calls[index] = ProgramCall(number, one.args, one.kwargs, one.with_grad)
    model = CalledParts([unwrap(part) for part in parts.values()], program.copied())
    model.training = any(
        part.training for part in parts.values()
    )  # `train` would set the parts too
    copies = {key: t for i in passes for key, t in calls[i].copies.items()}
    return Called(model, tuple(copies[id(t)] for t in inputs), tuple(outputs), tuple(others))


def _made_from_passes(calls: Sequence[TapeCall]) -> set[int]:
    """Ids of the tensors that passes gave, and of those computed from them, as far as gradients reach."""
    result: set[int] = set()
    for call in calls:
        if call.is_module or any(id(t) in result for t in leaves_in((call.args, call.kwargs))):
            result |= {id(t) for t in tensors_in(call.output) if t.requires_grad}
    return result


def _needed(calls: Sequence[TapeCall], root: Tensor) -> list[int]:
    """The calls through which gradients reach a tensor, in order."""
    wanted, result = {id(root)}, []
    for index in reversed(range(len(calls))):
        call = calls[index]
        if any(id(t) in wanted for t in tensors_in(call.output)):
            result.append(index)
            wanted |= {id(t) for t in tensors_in((call.args, call.kwargs)) if t.requires_grad}
    return result[::-1]


def _inputs(call: TapeCall) -> Any:
    """The arguments of one pass as `diagnose` takes them; None where they have another form."""

    def before(value: object) -> object:
        return call.copies.get(id(value), value) if isinstance(value, Tensor) else value

    if not call.kwargs:
        return map_leaves(call.args[0] if len(call.args) == 1 else call.args, before)
    if not call.args:
        return map_leaves(call.kwargs, before)
    try:
        assert isinstance(call.func, nn.Module)
        bound = inspect.signature(call.func.forward).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return None
    kinds = {p.kind for p in inspect.signature(call.func.forward).parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    return map_leaves(dict(bound.arguments), before)
