"""What `bathyscope run` prints of its findings: where, by which number, and what to do next."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bathyscope.core.records import RootCause, Severity
from bathyscope.report.findings import TREATABLE
from bathyscope.report.numbers import block_extent, evidence_of

if TYPE_CHECKING:
    from bathyscope.core.loop_record import LoopRecord
    from bathyscope.diagnosis.diagnosis import Diagnosis
    from bathyscope.diagnosis.loop import LoopDiagnosis

_MOST_EVIDENCE = 4


def finding_lines(result: "LoopDiagnosis", record: "LoopRecord") -> Iterator[str]:
    """Each root cause with its blocks, evidence, effects and remedy; then the next step, or the all-clear."""
    order = () if result.diagnosis is None else [b.label for b in result.diagnosis.blocks.rows]
    for place, root in enumerate(result.roots, start=1):
        blocks = root.block_range or block_extent(root.blocks, order)
        where = f" at {blocks}" if blocks else ""
        yield f"{place}. {root.severity}: {root.title}{where} [{root.code}]"
        yield f"   {root.why}"
        if evidence := evidence_of(root)[:_MOST_EVIDENCE]:  # the first have decided
            yield f"   Evidence: {', '.join(evidence)}"
        if root.effects:
            brought = dict.fromkeys(effect.code for effect in root.effects)
            yield f"   It brings about: {', '.join(brought)}."
        if root.remedy and root.severity is not Severity.NOTE:
            yield f"   Change: {root.remedy}"
    if result.at_constant:
        yield result.at_constant
    if result.roots:
        yield from _next_step(result)
    elif record.steps and not result.at_constant:
        what = " and with what it trains" if result.diagnosis is not None else ""
        yield f"Nothing is wrong with the loop{what}, as far as it was watched."


def _next_step(result: "LoopDiagnosis") -> Iterator[str]:
    yield f"Next: `bathyscope explain {result.roots[0].code}` says more of the first."
    diagnosis = result.diagnosis
    if diagnosis is not None and any(_is_treatable(root, diagnosis) for root in result.roots):
        yield from _treatment_code(diagnosis)


def _treatment_code(diagnosis: "Diagnosis") -> Iterator[str]:
    """The calls that search for a recipe, to copy into the script before its training."""
    goes_on = (
        "optimizer = treatment.optimizer   # the model is changed in place; go on with this one"
    )
    if "transformers.trainer" in sys.modules:  # loaded where a script asks for Trainer
        yield "To search for a recipe that trains the network, before trainer.train():"
        yield "   import bathyscope as bs"
        yield "   # settings alone keep pre-trained weights; without allow= all else is tried, too"
        yield '   treatment = bs.treat(trainer, bs.diagnose(trainer), allow="settings")'
        goes_on = (
            "trainer.optimizer = treatment.optimizer   # or the arguments that code() ends with"
        )
    else:
        yield "To search for a recipe that trains the network, before the loop (loader: a DataLoader, or a"
        yield "list of batches as the loop has them; loss_function: yours):"
        yield "   import bathyscope as bs"
        yield f"   optimizer = {_optimizer_code(diagnosis)}"
        yield "   diagnosis = bs.diagnose(model, loader, loss=loss_function, optimizer=optimizer)"
        yield "   treatment = bs.treat(model, diagnosis, batches=loader)"
    yield "   print(treatment.outcome)"
    yield "   print(treatment.code())"
    yield f"   {goes_on}"


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
