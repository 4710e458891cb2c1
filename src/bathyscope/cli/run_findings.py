"""What `bathyscope run` prints of its findings: where, by which number, and what to do next."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bathyscope.core.records import Finding, RootCause, Severity
from bathyscope.report.findings import TREATABLE
from bathyscope.report.numbers import name_list, number

if TYPE_CHECKING:
    from bathyscope.core.loop_record import LoopRecord
    from bathyscope.diagnosis.diagnosis import Diagnosis
    from bathyscope.diagnosis.loop import LoopDiagnosis

_MOST_EVIDENCE = 4
_FEWEST_IN_RANGE = 3
"""Blocks in a row from which on only the first and the last are named."""


def finding_lines(result: "LoopDiagnosis", record: "LoopRecord") -> Iterator[str]:
    """Each root cause with its blocks, evidence, effects and remedy; then the next step, or the all-clear."""
    order = () if result.diagnosis is None else [b.label for b in result.diagnosis.blocks.rows]
    for place, root in enumerate(result.roots, start=1):
        blocks = root.block_range or block_extent(root.blocks, order)
        where = f" at {blocks}" if blocks else ""
        yield f"{place}. {root.severity}: {root.title}{where} [{root.code}]"
        yield f"   {root.why}"
        evidence = _evidence(root)
        if evidence:
            yield f"   Evidence: {evidence}"
        if root.effects:
            brought = dict.fromkeys(effect.code for effect in root.effects)
            yield f"   It brings about: {', '.join(brought)}."
        if root.remedy and root.severity is not Severity.NOTE:
            yield f"   Change: {root.remedy}"
    if result.roots:
        yield from _next_step(result)
    elif result.at_constant:
        yield result.at_constant
    elif record.steps:
        what = " and with what it trains" if result.diagnosis is not None else ""
        yield f"Nothing is wrong with the loop{what}, as far as it was watched."


def block_extent(blocks: Sequence[str], order: Sequence[str]) -> str:
    """Blocks in the order of the forward pass: the first and the last of a row of them, else a list.

    Examples:
        >>> order = ("a", "b", "c", "d")
        >>> block_extent(("c", "a", "b"), order), block_extent(("d", "a"), order)
        ('a to c', 'a, d')
    """
    location = {label: at for at, label in enumerate(order)}
    ordered = sorted(blocks, key=lambda label: location.get(label, len(location)))
    known = [location[label] for label in ordered if label in location]
    is_row = (
        bool(known)
        and len(known) == len(ordered)
        and known == list(range(min(known), max(known) + 1))
    )
    if len(ordered) >= _FEWEST_IN_RANGE and is_row:
        return f"{ordered[0]} to {ordered[-1]}"
    return name_list(tuple(ordered))


def _evidence(root: Finding) -> str:
    """The first numbers of a finding, which decided it."""
    left_out = ("first_block", "last_block") if root.block_range else ()
    every = [(k, v) for k, v in root.evidence.items() if k not in left_out and v is not None]
    return ", ".join(f"{k.replace('_', ' ')} {number(v)}" for k, v in every[:_MOST_EVIDENCE])


def _next_step(result: "LoopDiagnosis") -> Iterator[str]:
    yield f"Next: `bathyscope explain {result.roots[0].code}` says more of the first."
    diagnosis = result.diagnosis
    if diagnosis is not None and any(_is_treatable(root, diagnosis) for root in result.roots):
        yield (
            "To search for a recipe that trains the network: diagnosis = bathyscope.diagnose(model, "
            f"batch, loss=loss_function, optimizer={_optimizer_code(diagnosis)}); "
            "bathyscope.treat(model, diagnosis, batches=batches), where batches is your loader or a list of "
            "(inputs, targets)."
        )


def _is_treatable(root: RootCause, diagnosis: "Diagnosis") -> bool:
    """Whether it is a fault of the network for which `treat` has recipes."""
    return (
        root.cause in TREATABLE
        and root.severity is not Severity.NOTE
        and any(f.code == root.code for f in diagnosis.findings)
    )


def _optimizer_code(diagnosis: "Diagnosis") -> str:
    """The script's optimizer with its learning rate and weight decay, as code."""
    known = diagnosis.setting.optimizer
    if known is None:
        return "optimizer"
    group = known.param_groups[0]
    options = [
        f"{name}={float(group[name]):g}"
        for name in ("lr", "momentum", "weight_decay")
        if isinstance(group.get(name), (int, float)) and (group[name] or name == "lr")
    ]
    kind = type(known)
    where = "torch.optim." if kind.__module__.startswith("torch.optim") else ""
    return f"{where}{kind.__name__}({', '.join(['model.parameters()', *options])})"
