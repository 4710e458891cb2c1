"""Remedies printed as a changed `forward`: subclasses instead of hooks, where a pass shows that they fit.

A hook before a module and a line at the top of its `forward` do the same, and so do a hook behind it and a
line at the end: hooks before run in the order in which they were set, then `forward`, then those behind.
"""

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from bathyscope.core.batch import run_forward
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.remedies.remedy import Edit, python_list, python_range, python_string


@dataclass(slots=True)
class ModulePasses:
    """What one pass showed of a module.

    Attributes:
        reads: the first parameter of its forward was a tensor each time.
        gives: so was what it gave out.
        read_shapes, given_shapes: of each call.
        overwrites: the input had other values after a call.
    """

    reads: bool = True
    gives: bool = True
    overwrites: bool = False
    read_shapes: list[torch.Size] = field(default_factory=list)
    given_shapes: list[torch.Size] = field(default_factory=list)
    open_calls: list[tuple[Tensor, int]] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether what it gave out had the shape of what it read each time."""
        return self.read_shapes == self.given_shapes


def observe(model: nn.Module, inputs: object, names: Sequence[str]) -> dict[str, ModulePasses]:
    """One forward pass of the model, which is left as it was; modules that did not run are left out."""
    seen: dict[str, ModulePasses] = {}

    def before(name: str, first: str | None) -> object:
        def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            x = args[0] if args else kwargs.get(first or "")
            record = seen.setdefault(name, ModulePasses())
            record.reads = record.reads and isinstance(x, Tensor)
            if isinstance(x, Tensor):
                record.open_calls.append((x, x._version))
                record.read_shapes.append(x.shape)

        return hook

    def after(name: str) -> object:
        def hook(module: nn.Module, args: object, y: object) -> None:
            record = seen[name]
            if not isinstance(y, Tensor) or not record.open_calls:
                record.gives = False
                return
            x, version = record.open_calls.pop()
            record.given_shapes.append(y.shape)
            record.overwrites = record.overwrites or x._version != version or y is x

        return hook

    with preserve_model(model), torch.no_grad(), Hooks() as hooks:
        for name in dict.fromkeys(names):
            module = model.get_submodule(name)
            hooks.before_forward(module, before(name, _first_parameter(module)), with_kwargs=True)  # type: ignore[arg-type]
            hooks.after_forward(module, after(name))  # type: ignore[arg-type]
        run_forward(model, copy_tensors(inputs))
    return seen


def can_be_subclassed(model: nn.Module, name: str) -> bool:
    """Whether a changed `forward` of this module is what its parent calls.

    Not where the parent is a module of torch's own that reads the weights itself, as an encoder layer
    does on its fast path; nor where `forward` was set on the module.
    """
    module = model.get_submodule(name)
    parts = name.split(".")
    above = [model.get_submodule(".".join(parts[:i])) for i in range(len(parts))] if name else []
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    strange = [
        m
        for m in above
        if type(m).__module__.startswith("torch.") and not isinstance(m, containers)
    ]
    return (
        not strange
        and "forward" not in vars(module)
        and _first_parameter(module) is not None
        and not isinstance(module, (torch.jit.ScriptModule, nn.MultiheadAttention))
    )


def _first_parameter(module: nn.Module) -> str | None:
    """The name of what `forward` reads first; None where it takes anything."""
    try:
        parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return parameters[0].name if parameters and parameters[0].kind in kinds else None


def subclass(
    model: nn.Module,
    names: tuple[str, ...],
    edits: tuple[Edit, ...],
    seen: list[ModulePasses],
    titles: set[str],
) -> list[str]:
    """The lines of one class with a changed forward, and the loop that gives it to the modules."""
    module = model.get_submodule(names[0])
    base = type(module)
    x = _first_parameter(module)
    assert x is not None
    several = len(inspect.signature(base.forward).parameters) > 2
    rest = ", *args, **kwargs" if several else ""
    prefix = "Outer" if base.__name__.startswith(edits[0].prefix) else edits[0].prefix
    title = _title(f"{prefix}{base.__name__}", titles)
    known = getattr(nn, base.__name__, None) is base
    parent = (
        f"nn.{base.__name__}" if known else f"type(model.get_submodule({python_string(names[0])}))"
    )
    where = "" if known else _whereabouts(base)
    lines = [f"class {title}({parent}):{where}", f"    def forward(self, {x}{rest}):"]
    body, out = _body(edits, x, rest, seen)
    lines += [f"        {line}" for line in (*body, f"return {out}")]
    return [*lines, *_assigned(names, title)]


def residual_sequential(
    names: Sequence[str], forward: Sequence[str], titles: set[str]
) -> list[str]:
    """The lines of a Sequential with a changed forward, and those that give it to the modules."""
    title = _title("ResidualSequential", titles)
    head = [f"class {title}(nn.Sequential):", "    def forward(self, x):"]
    return [*head, *(f"        {line}" for line in forward), *_assigned(names, title)]


def _assigned(names: Sequence[str], title: str) -> list[str]:
    """The lines that give a class to modules."""
    if len(names) > 1:
        each = f"    model.get_submodule(name).__class__ = {title}"
        return [f"for name in {python_list(tuple(names))}:", each]
    target = f"model.get_submodule({python_string(names[0])})" if names[0] else "model"
    return [f"{target}.__class__ = {title}"]


def _title(title: str, taken: set[str]) -> str:
    """A name for a class that none before has."""
    number = 1 + sum(other.rstrip("0123456789") == title for other in taken)
    taken.add(title if number == 1 else f"{title}{number}")
    return title if number == 1 else f"{title}{number}"


def _whereabouts(base: type) -> str:
    """A comment that names the class and the line of its source, where it is at hand."""
    try:
        line = inspect.getsourcelines(base.forward)[1]  # type: ignore[attr-defined]
        file = Path(inspect.getsourcefile(base) or "").name
    except (OSError, TypeError):
        return f"  # {base.__name__}"
    return f"  # or in {base.__name__}.forward itself: {file}, line {line}"


def _body(
    edits: tuple[Edit, ...], x: str, rest: str, seen: list[ModulePasses]
) -> tuple[list[str], str]:
    """The lines before the return, and what is returned."""
    lines, read = [], x
    for edit in edits:
        if edit.scale is not None and read != x:
            lines.append(f"{x} = {read}")
            read = x
        if edit.before:
            if read != x:
                lines.append(f"{x} = {read}")
            read = edit.before.format(x)
    fits = all(record.is_equal for record in seen)
    if any(e.scale is not None for e in edits) and any(record.overwrites for record in seen):
        lines.append(f"shortcut = {x}.clone()")
        kept = "shortcut"
    else:
        kept = x
    out = f"super().forward({read}{rest})"
    for edit in edits:
        if edit.scale is not None:
            if not fits:
                lines.append(f"y = {out}")
                out = "y"
            carried = kept if fits else f"fit_to({kept}, y)"
            out = f"{carried} + {edit.scale:.9g} * {out}"
        if edit.after:
            out = edit.after.format(f"({out})" if " + " in out else out)
    return lines, out


@dataclass(frozen=True, slots=True)
class Spans:
    """Shortcuts around neighboring children of one Sequential, by their first and last positions."""

    parent: str
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    scale: float

    def forward(self, length: int, *, fits: bool, overwrites: bool) -> tuple[str, ...]:
        """The lines of the changed forward of a Sequential of this many modules."""
        around_all = (self.firsts, self.lasts) == ((0,), (length - 1,))
        if around_all and fits and not overwrites:
            return (f"return x + {self.scale:.9g} * super().forward(x)",)
        keeps = f"kept = x{'.clone()' * overwrites}"
        kept = "kept" if fits else "fit_to(kept, x)"
        added = f"{kept} + {self.scale:.9g} * x"
        if around_all:
            return (keeps, "x = super().forward(x)", f"return {added}")
        return (
            "for i, layer in enumerate(self):",
            f"    if i in {_positions(self.firsts)}:",
            f"        {keeps}",
            "    x = layer(x)",
            f"    if i in {_positions(self.lasts)}:",
            f"        x = {added}",
            "return x",
        )


def _positions(numbers: tuple[int, ...]) -> str:
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    return python_range(list(numbers)) if len(steps) == 1 else repr(list(numbers))


def spans_of_sequential(
    model: nn.Module, spans: Sequence[tuple[str, str]], scale: float
) -> list[Spans]:
    """The spans between children of plain Sequentials; those of one that overlap are left out."""
    by_parent: dict[str, list[tuple[int, int]]] = {}
    counts: dict[int, int] = {}
    for _, module in model.named_modules(remove_duplicate=False):
        counts[id(module)] = counts.get(id(module), 0) + 1
    for first, last in spans:
        parent, one = first.rpartition(".")[::2]
        above, other = last.rpartition(".")[::2]
        module = model.get_submodule(parent)
        if above != parent or type(module) is not nn.Sequential or counts[id(module)] > 1:
            continue
        keys = list(module._modules)
        if "forward" in vars(module) or any(counts[id(m)] > 1 for m in module):
            continue
        by_parent.setdefault(parent, []).append((keys.index(one), keys.index(other)))
    return [
        Spans(parent, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), scale)
        for parent, pairs in ((p, sorted(each)) for p, each in by_parent.items())
        if all(a[1] < b[0] for a, b in itertools.pairwise(pairs)) and pairs[0][0] <= pairs[0][1]
    ]
