"""One call, any module: measure every block and say what is wrong, where, and what helps."""

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import __version__, measure
from bathyscope.core.arguments import check_count, check_name, check_names
from bathyscope.core.batch import Batch, LossFn, check_batch
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.call_forms import first_batch, read_call
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.nested import tensors_in
from bathyscope.core.precision import ON_A_COPY, lacks_double, on_cpu
from bathyscope.core.preserve import one_at_a_time
from bathyscope.core.processes import processes_of
from bathyscope.core.progress import begin_stage
from bathyscope.core.records import CAUSES, Measurement, Number
from bathyscope.core.shards import put_together
from bathyscope.core.stepping import copy_to_cpu
from bathyscope.diagnosis.block_choice import sample_blocks, wanted_blocks
from bathyscope.diagnosis.ceiling import trim_batch
from bathyscope.diagnosis.diagnosis import Diagnosis, Setting
from bathyscope.diagnosis.findings import findings_of
from bathyscope.rules.evidence import evidence_of
from bathyscope.rules.registry import all_rules
from bathyscope.rules.thresholds import Thresholds

Probes = Literal["standard", "full"]


@one_at_a_time()
def diagnose(
    model: object,
    batch: object = None,
    targets: object = None,
    *,
    batches: object = None,
    loss: LossFn | str | None = F.cross_entropy,
    optimizer: torch.optim.Optimizer | None = None,
    probes: Probes = "standard",
    blocks: str | Iterable[str] | Blocks | None = None,
    thresholds: Path | str | Mapping[str, float] | None = None,
    silence: str | Iterable[str] = (),
    steps: int = 8,
    budget: int | None = None,
    most_blocks: int | None = None,
    memory: float | None = None,
    scheduler: object | None = None,
    clip: float | None = None,
    scaler: object | None = None,
    accumulate: int = 1,
    title: str | None = None,
) -> Diagnosis:
    """Measure every block of a model and rank what is wrong with it.

    The model is left bit for bit as it was, in the mode in which it was given: BatchNorm in train
    mode is measured with the batch's statistics, as training would see it.

    Args:
        model: any module, a Hugging Face `Trainer`, or a `LightningModule`, whose `training_step` then is
            the loss. A module that DistributedDataParallel or `fully_shard` has prepared is measured
            by all processes, which call this together; each has the same diagnosis.
        batch: inputs, with their targets as the next argument; or both as a pair. Inputs are a tensor, a
            tuple or a mapping. Of a list or loader of batches the first is taken. A trainer has its
            own. Of several processes each gives its own part, and the whole is measured.
        targets: of the inputs.
        batches: the same as `batch`, by the name that it has in `forecast` and `treat`.
        loss: a scalar from output and targets; its name (`"mse"`); or None where the model's output
            carries its own `.loss`.
        optimizer: the one meant for training; with it the size of its steps is judged, and the
            look-ahead uses it. Its state is left as it was.
        probes: `standard` costs about three training steps of a deep network, four to twenty of a
            small one; `full` adds the look-ahead (training steps on a copy), the forecast, the
            deletion of each block, and the curvature, together some hundred training steps.
        blocks: a name or glob, or several, that override the blocks found.
        thresholds: overrides, as a mapping or a TOML file with a table `[thresholds]`.
        silence: codes or causes of findings to leave out.
        steps: of the look-ahead; at least one.
        budget: steps of training that you plan: whether they are enough is judged with it.
        most_blocks: measure at most this many blocks, spread evenly; all of them by default.
        memory: GiB that measuring may take, beside the model and the batch; four fifths of what is
            free by default. Where the batch would take more, its first samples are measured.
        scheduler: of the optimizer's learning rate. One that begins at zero, as a warm-up does, is
            judged at its first other rate.
        clip: the norm to which your loop clips all gradients together before a step.
        scaler: of the loss. What is measured is in the model's own dtype and not scaled.
        accumulate: batches whose mean gradient makes a step; the one given stands for each.
        title: the model's name in reports; its class's name by default.

    Returns:
        The diagnosis: `findings`, `table`, `save("report.html")`, `diff(earlier)`.

    Raises:
        UsageError: the batch, the loss, the optimizer or the model does not fit the others, or an
            argument is of another kind.

    Examples:
        >>> mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> with torch.no_grad():
        ...     _ = mlp[0].bias.fill_(-100.0)
        >>> found = diagnose(mlp, (torch.randn(32, 8), torch.randint(3, (32,))))
        >>> found.findings[0].code, found.findings[0].blocks
        ('dead-units', ('0',))
    """
    # long: one step after the other, each used once
    if not isinstance(probes, str) or probes not in ("standard", "full"):
        raise UnknownName("set of probes", str(probes), ["standard", "full"])
    silenced = frozenset(check_names("silence", silence))
    for code in silenced:
        if code not in all_rules() and code not in CAUSES:
            raise UnknownName("finding or cause to silence", code, [*all_rules(), *CAUSES])
    steps = check_count("steps", steps, minimum=1)
    if title is not None:
        check_name("title", title)
    budget = None if budget is None else check_count("budget", budget, minimum=1)
    limits = Thresholds.of(thresholds)
    if batch is not None and batches is not None:
        raise UsageError("Both batch and batches were given; one of them is enough.")
    given = read_call(
        model, batches if batch is None else batch, targets, loss=loss, optimizer=optimizer
    )
    model, loss, optimizer = given.model, given.loss, given.optimizer
    title = title or given.title
    batch = check_batch(model, first_batch(given.data))
    as_in_loop: Callable[[], AbstractContextManager[None]] = nullcontext
    at_first_rate: Callable[[], AbstractContextManager[None]] = nullcontext
    if (scheduler, clip, scaler, accumulate) != (None, None, None, 1):
        from bathyscope.core.step_settings import StepSettings  # of loops that say how they step

        settings = StepSettings(scheduler, clip, scaler, accumulate)
        settings.check(optimizer)
        as_in_loop = partial(settings.applied_to, optimizer)
        # for optimizers that are copied: the scheduler knows this one alone
        at_first_rate = partial(StepSettings(scheduler).applied_to, optimizer)
    if (group := processes_of(model)) is not None:
        with (
            at_first_rate(),
            put_together(model, [batch], optimizer, what="diagnose") as (inner, whole, stepper),
        ):
            one = diagnose(
                inner, whole[0], loss=loss, optimizer=stepper, probes=probes, blocks=blocks,
                thresholds=thresholds, silence=silence, steps=steps, budget=budget,
                most_blocks=most_blocks, memory=memory, clip=clip, accumulate=accumulate, title=title,
            )  # fmt: skip
            return replace(one, provenance={**one.provenance, "processes": group.size})
    if lacks_double(model):
        with at_first_rate():
            twin, stepper = copy_to_cpu(model, optimizer)
        one = diagnose(
            twin, on_cpu(batch), loss=loss, optimizer=stepper, probes=probes, blocks=blocks,
            thresholds=thresholds, silence=silence, steps=steps, budget=budget,
            most_blocks=most_blocks, memory=memory, clip=clip, accumulate=accumulate, title=title,
        )  # fmt: skip
        setting = replace(one.setting, batch=batch)
        return replace(one, setting=setting, notes=(ON_A_COPY, *one.notes))
    batch, fewer = trim_batch(model, batch, memory=memory, probes=probes)
    stages = 4 if probes == "full" else 1
    begin_stage("every block measured", 1, stages)
    result = sample_blocks(blocks_of(model, batch[0], blocks=wanted_blocks(blocks)), most_blocks)
    with as_in_loop():
        measured = measure.standard(model, batch, loss=loss, optimizer=optimizer, blocks=result)
    if "bathyscope.nets.nest" in sys.modules:  # whoever built a network of that family imported it
        from bathyscope.diagnosis.certified import certificate

        if (known := certificate(model, batch, loss=loss, blocks=result)) is not None:
            measured[known.name] = known
    if probes == "full" and any(block.droppable for block in result):
        begin_stage("each block left out", 2, stages)
        measured["deletion"] = measure.deletion(model, batch, loss=loss, blocks=result)
    if probes == "full":
        from bathyscope.diagnosis.curvature_probe import curvature_probe  # of full probes alone

        begin_stage("curvature", 3, stages)
        measured["curvature"] = curvature_probe(
            model, batch, loss=loss, blocks=result, optimizer=optimizer
        )
    diagnosis = Diagnosis(
        title=title or type(unwrap(model)).__name__,
        blocks=result,
        measurements=measured,
        findings=findings_of(
            evidence_of(result, measured, batch, budget=budget), limits, silenced=silenced
        ),
        provenance=_provenance(model, batch, measured),
        setting=Setting(
            batch=batch,
            loss=loss,
            options={
                "thresholds": thresholds,
                "silence": tuple(silenced),
                "blocks": result,
                "budget": budget,
            },
        ),
        notes=tuple(
            dict.fromkeys([fewer] * bool(fewer) + [n for m in measured.values() for n in m.notes])
        ),
    )
    if probes == "full":
        from bathyscope.diagnosis.look_ahead import with_look_ahead  # of full probes alone

        begin_stage("training steps on a copy", 4, stages)
        with as_in_loop():
            return with_look_ahead(diagnosis, model, optimizer=optimizer, steps=steps)
    return diagnosis


def _provenance(
    model: nn.Module, batch: Batch, measured: Mapping[str, Measurement]
) -> dict[str, Number]:
    tensor = next(tensors_in(batch[0]))
    parameters = list(unwrap(model).parameters())
    return {
        "bathyscope": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(tensor.device),
        "threads": torch.get_num_threads(),
        "dtype": str(parameters[0].dtype).removeprefix("torch."),
        "mode": "train" if model.training else "eval",
        "batch": " × ".join(map(str, tensor.shape)),
        "parameters": sum(p.numel() for p in parameters),
        "loss": _loss_of(measured),
    }


def _loss_of(measured: Mapping[str, Measurement]) -> Number:
    return measured["gradients"].settings.get("loss")
