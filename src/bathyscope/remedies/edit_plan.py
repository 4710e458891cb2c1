"""Which steps of a recipe are printed as a changed `forward`, and which stay hooks."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from bathyscope.remedies.edits import (
    ModulePasses,
    Spans,
    can_be_subclassed,
    observe,
    residual_sequential,
    spans_of_sequential,
    subclass,
)
from bathyscope.remedies.remedy import Edit, Remedy
from bathyscope.remedies.shortcut import KEEPS_INPUT, AddShortcuts


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The lines of the classes, and what is left of each step for hooks.

    Attributes:
        first: index of the step in whose place the classes stand; None where there are none.
        needs_fit: whether they call `fit_to`.
        rest: for each step its part that the classes do not do; None where they do all of it.
    """

    first: int | None
    lines: tuple[str, ...]
    needs_fit: bool
    rest: tuple[Remedy | None, ...]


def plan_edits(steps: Sequence[Remedy], model: nn.Module, inputs: object) -> EditPlan:
    """Print as a changed forward what a pass of the model shows to be the same as its hooks.

    A module has either hooks or a changed forward, so that the order of what is done to it stays.
    """
    edits: dict[str, list[Edit]] = {}
    for step in steps:
        for name, edit in step.edits(model).items():
            edits.setdefault(name, []).append(edit)
    spans = [(k, s) for k, step in enumerate(steps) for s in _long_spans(step)]
    names = [*edits, *(end for _, span in spans for end in span)]
    if not names:
        return EditPlan(None, (), False, tuple(steps))
    seen = observe(model, inputs, names)
    hooked = {name for name in names if not _is_editable(model, name, edits.get(name), seen)}
    hooked |= {name for step in steps if not step.edits(model) for name in _targets(step)}
    groups = _groups(steps, model, spans)
    kept = _settled(steps, groups, hooked)
    merge_norms(model, edits, hooked)
    lines, needs_fit = _printed(model, edits, hooked, kept, seen)
    done_spans = {span[0] for group in kept for span in group.names}
    rest = tuple(_left(step, model, hooked, done_spans) for step in steps)
    first = next((k for k, step in enumerate(steps) if rest[k] != step), None)
    return EditPlan(first, tuple(lines), needs_fit, rest)


@dataclass(frozen=True, slots=True)
class _Group:
    """The spans of one step inside of one Sequential."""

    step: int
    spans: Spans
    names: tuple[tuple[str, str], ...]


def _long_spans(step: Remedy) -> list[tuple[str, str]]:
    """The shortcuts of a step that lead around more than one module."""
    if not isinstance(step, AddShortcuts):
        return []
    return [(first, last) for first, last in step.spans if first != last]


def _targets(step: Remedy) -> tuple[str, ...]:
    """The modules that a step hooks or replaces, but for shortcuts."""
    if step.level == "weights":
        return ()
    layer = getattr(step, "layer", None)
    return (*getattr(step, "layers", ()), *([layer] if isinstance(layer, str) else []))


def _is_editable(
    model: nn.Module, name: str, edits: list[Edit] | None, seen: dict[str, ModulePasses]
) -> bool:
    if edits is None:  # the end of a span alone
        return True
    if name not in seen or not seen[name].reads or not can_be_subclassed(model, name):
        return False
    if sum(edit.scale is not None for edit in edits) > 1:
        return False
    return seen[name].gives or not any(edit.after or edit.scale is not None for edit in edits)


def _groups(
    steps: Sequence[Remedy], model: nn.Module, spans: list[tuple[int, tuple[str, str]]]
) -> list[_Group]:
    result: list[_Group] = []
    for k, step in enumerate(steps):
        if not isinstance(step, AddShortcuts):
            continue
        mine = [span for at, span in spans if at == k]
        for around in spans_of_sequential(model, mine, step.scale):
            inside = tuple(s for s in mine if s[0].rpartition(".")[0] == around.parent)
            result.append(_Group(k, around, inside))
    parents = [group.spans.parent for group in result]
    return [group for group in result if parents.count(group.spans.parent) == 1]


def _settled(steps: Sequence[Remedy], groups: list[_Group], hooked: set[str]) -> list[_Group]:
    """The groups that can be printed; the ends of all other spans are added to what is hooked."""
    kept = list(groups)
    while True:
        done = {span for group in kept for span in group.names}
        for step in steps:
            hooked |= {end for span in _long_spans(step) if span not in done for end in span}
        clash = [g for g in kept if _clashes(steps, g, hooked)]
        if not clash:
            return kept
        kept = [g for g in kept if g not in clash]


def _clashes(steps: Sequence[Remedy], group: _Group, hooked: set[str]) -> bool:
    """Whether something done to the ends of a span comes before or after the shortcut itself.

    The shortcut of a Sequential carries what goes into the first module, whatever is done inside of it.
    Where the Sequential is changed as a whole, too, it would need two classes.
    """
    firsts, lasts = {a for a, _ in group.names}, {b for _, b in group.names}
    if (firsts | lasts) & hooked:
        return True
    if any(group.spans.parent in _changed_as_a_whole(step) for step in steps):
        return True
    for k, step in enumerate(steps):
        touched = {*_names(step)}
        if (k < group.step and touched & firsts) or (k > group.step and touched & lasts):
            return True
    return False


def _changed_as_a_whole(step: Remedy) -> set[str]:
    """The modules whose own forward a step changes."""
    spans = step.spans if isinstance(step, AddShortcuts) else ()
    return {*_targets(step), *(first for first, last in spans if first == last)}


def _names(step: Remedy) -> tuple[str, ...]:
    if isinstance(step, AddShortcuts):
        return tuple(end for span in step.spans for end in span)
    return _targets(step)


def merge_norms(model: nn.Module, edits: dict[str, list[Edit]], hooked: set[str]) -> None:
    """x + scale · block(norm(x)) in one place, where the first layer of a Sequential is normalized."""
    alone = [n for n, each in edits.items() if [e.scale is not None for e in each] == [True]]
    for name in alone:
        block = model.get_submodule(name)
        if name in hooked or type(block) is not nn.Sequential or not len(block):
            continue
        child = f"{name}.{next(iter(block._modules))}"
        if child in hooked or [bool(e.before) for e in edits.get(child, [])] != [True]:
            continue
        edits[name].extend(edits.pop(child))


def _printed(
    model: nn.Module,
    edits: dict[str, list[Edit]],
    hooked: set[str],
    groups: list[_Group],
    seen: dict[str, ModulePasses],
) -> tuple[list[str], bool]:
    """The lines of all classes, modules of one kind together, and whether one needs `fit_to`."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, changes in edits.items():
        if name not in hooked:
            kind = type(model.get_submodule(name))
            alike.setdefault((kind, *changes), []).append(name)
    lines: list[str] = []
    titles: set[str] = set()
    needs_fit = False
    for names in alike.values():
        records = [seen[name] for name in names]
        text = subclass(model, tuple(names), tuple(edits[names[0]]), records, titles)
        needs_fit = needs_fit or any("fit_to(" in line for line in text)
        lines += text
    residual: dict[tuple[str, ...], list[str]] = {}
    for group in groups:
        ends = [(seen.get(a, ModulePasses()), seen.get(b, ModulePasses())) for a, b in group.names]
        fits = all(a.read_shapes == b.given_shapes for a, b in ends)
        needs_fit = needs_fit or not fits
        firsts = (model.get_submodule(a) for a, _ in group.names)
        clone = not all(isinstance(m, KEEPS_INPUT) for m in firsts)
        length = len(model.get_submodule(group.spans.parent)._modules)
        forward = group.spans.forward(length, fits=fits, overwrites=clone)
        residual.setdefault(forward, []).append(group.spans.parent)
    for forward, parents in residual.items():
        lines += residual_sequential(parents, forward, titles)
    return lines, needs_fit


def _left(step: Remedy, model: nn.Module, hooked: set[str], done: set[str]) -> Remedy | None:
    """What of a step the classes do not do."""
    if not step.edits(model) and not _long_spans(step):
        return step
    if isinstance(step, AddShortcuts):
        spans = [
            (first, last)
            for first, last in step.spans
            if (first in hooked if first == last else first not in done)
        ]
        return step.model_copy(update={"spans": tuple(spans)}) if spans else None
    layers = tuple(name for name in step.edits(model) if name in hooked)
    return step.model_copy(update={"layers": layers}) if layers else None
