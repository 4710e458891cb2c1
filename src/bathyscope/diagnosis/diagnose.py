"""One call, any module: measure every block and say what is wrong, where, and what helps."""

import platform
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from bathyscope import __version__, measure
from bathyscope.core.arguments import check_count, check_name, check_names, hinted
from bathyscope.core.batch import Batch, LossFn, check_batch
from bathyscope.core.blocks import Blocks, blocks_of
from bathyscope.core.call_forms import as_trained, first_batch, read_call
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import ON_A_COPY, is_packed, lacks_double, on_cpu
from bathyscope.core.errors import UnknownName, UsageError, shorten
from bathyscope.core.fetch import host_copies, keep_batch_on_host
from bathyscope.core.global_state import autocast_in_passes_alone, one_at_a_time
from bathyscope.core.nested import tensors_in
from bathyscope.core.preserve import preserve_once
from bathyscope.core.progress import begin_stage
from bathyscope.core.records import CAUSES, Measurement, Number
from bathyscope.core.stepping import copy_to_cpu
from bathyscope.core.walks import named_parameters, walked_once
from bathyscope.diagnosis.diagnosis import Diagnosis, Setting
from bathyscope.diagnosis.scope import sample_blocks, trim_batch, wanted_blocks
from bathyscope.rules.evidence import evidence_of
from bathyscope.rules.findings import split_findings
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Thresholds

if TYPE_CHECKING:
    from bathyscope.core.step_settings import StepSettings

Probes = Literal["standard", "full"]


@hinted("bs.diagnose(model, x, y, loss=…, optimizer=…)")
@one_at_a_time()
@autocast_in_passes_alone()
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
    silence: str | Iterable[str] | Mapping[str, str] = (),
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
        silence: codes or causes of findings to leave out; a mapping gives the reason of each.
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
    silenced, steps, budget = _check_options(probes, silence, steps, budget, title)
    Thresholds.of(thresholds)
    if batch is not None and batches is not None:
        raise UsageError("Both batch and batches were given; one of them is enough.")
    with as_trained(model):
        given = read_call(
            model, batches if batch is None else batch, targets, loss=loss, optimizer=optimizer
        )
    request = _Request(
        loss=given.loss, optimizer=given.optimizer, probes=probes, blocks=blocks,
        thresholds=thresholds, silence=silenced, steps=steps, budget=budget,
        most_blocks=most_blocks, memory=memory, scheduler=scheduler, clip=clip, scaler=scaler,
        accumulate=accumulate, title=title or given.title,
    )  # fmt: skip
    with as_trained(model), host_copies():
        batch = first_batch(given.data)
        keep_batch_on_host(batch)
        checked = check_batch(given.model, batch)
        if request.settings is not None:
            request.settings.check(request.optimizer)
        result = _diagnose(given.model, checked, request)
    return replace(result, setting=replace(result.setting, optimizer=given.optimizer))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The arguments of `diagnose`, by their names, but for the model and the batch."""

    loss: LossFn
    optimizer: torch.optim.Optimizer | None
    probes: Probes
    blocks: str | Iterable[str] | Blocks | None
    thresholds: Path | str | Mapping[str, float] | None
    silence: Mapping[str, str]
    steps: int
    budget: int | None
    most_blocks: int | None
    memory: float | None
    scheduler: object | None
    clip: float | None
    scaler: object | None
    accumulate: int
    title: str | None

    @property
    def settings(self) -> "StepSettings | None":
        """How the user's loop steps, where it says so."""
        said = (self.scheduler, self.clip, self.scaler, self.accumulate)
        if said == (None, None, None, 1):
            return None
        from bathyscope.core.step_settings import StepSettings  # of loops that say how they step

        return StepSettings(*said)

    def as_in_loop(self) -> AbstractContextManager[None]:
        """Within, the optimizer steps as in the user's loop."""
        settings = self.settings
        return nullcontext() if settings is None else settings.applied_to(self.optimizer)

    def at_first_rate(self) -> AbstractContextManager[None]:
        """Within, the optimizer can be copied: the scheduler knows this one alone."""
        settings = self.settings
        if settings is None:
            return nullcontext()
        return type(settings)(self.scheduler).applied_to(self.optimizer)

    def rate_growth(self) -> float:
        """How far the schedule goes above the rate of the step that is measured."""
        settings = self.settings
        return 1.0 if settings is None else settings.rate_growth(self.optimizer, self.budget)

    def on_a_copy(self, optimizer: torch.optim.Optimizer | None) -> "_Request":
        """The same for a copy of the model, and of the optimizer at its first rate."""
        return replace(self, optimizer=optimizer, scheduler=None, scaler=None)


def _check_options(
    probes: str,
    silence: str | Iterable[str] | Mapping[str, str],
    steps: int,
    budget: int | None,
    title: str | None,
) -> tuple[dict[str, str], int, int | None]:
    """What is to be silenced and why, the steps and the budget, of arguments that are fit for use.

    Raises:
        UsageError: an argument is of another kind, or a name is not known.
    """
    if not isinstance(probes, str) or probes not in ("standard", "full"):
        raise UnknownName("set of probes", str(probes), ["standard", "full"])
    silenced = dict.fromkeys(check_names("silence", silence), "")
    if isinstance(silence, Mapping):
        silenced = {code: _check_reason(silence[code]) for code in silenced}
    for code in silenced:
        if code not in all_rules() and code not in CAUSES:
            raise UnknownName("finding or cause to silence", code, [*all_rules(), *CAUSES])
    steps = check_count("steps", steps, minimum=1)
    if title is not None:
        check_name("title", title)
    return silenced, steps, None if budget is None else check_count("budget", budget, minimum=1)


def _check_reason(value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"silence maps codes to reasons in words, but {shorten(value)} was given.")
    return value


def _diagnose(model: nn.Module, batch: Batch, request: _Request) -> Diagnosis:
    """The diagnosis, on a copy where the model itself cannot be measured as it stands."""
    if dist.is_available() and dist.is_initialized():
        one = _diagnose_together(model, batch, request)
        if one is not None:
            return one
    if lacks_double(model):
        with request.at_first_rate():
            twin, stepper = copy_to_cpu(model, request.optimizer)
        one = _diagnose(twin, on_cpu(batch), request.on_a_copy(stepper))
        setting = replace(one.setting, batch=batch)
        return replace(one, setting=setting, notes=(ON_A_COPY, *one.notes))
    diagnosis = _measure_and_judge(model, batch, request)
    if request.probes == "full":
        from bathyscope.diagnosis.look_ahead import with_look_ahead  # of full probes alone

        begin_stage("training steps on a copy", 4, 4)
        with request.as_in_loop():
            return with_look_ahead(
                diagnosis, model, optimizer=request.optimizer, steps=request.steps
            )
    return diagnosis


def _diagnose_together(model: nn.Module, batch: Batch, request: _Request) -> Diagnosis | None:
    """The diagnosis of a model that several processes hold, which each has; None for one's own model."""
    from bathyscope.core.processes import processes_of
    from bathyscope.core.shards import put_together

    if (group := processes_of(model)) is None:
        return None
    with (
        request.at_first_rate(),
        put_together(model, [batch], request.optimizer, what="diagnose") as whole,
    ):
        inner, batches, stepper = whole
        together = check_batch(inner, batches[0])
        one = _diagnose(inner, together, request.on_a_copy(stepper))
    return replace(one, provenance={**one.provenance, "processes": group.size})


def _measure_and_judge(model: nn.Module, batch: Batch, request: _Request) -> Diagnosis:
    """Everything but the look-ahead."""
    with preserve_once(model), walked_once():
        batch, fewer = trim_batch(model, batch, memory=request.memory, probes=request.probes)
        begin_stage("every block measured", 1, 4 if request.probes == "full" else 1)
        blocks = blocks_of(model, batch[0], blocks=wanted_blocks(request.blocks))
        blocks = sample_blocks(blocks, request.most_blocks)
        with request.as_in_loop():
            measured = measure.standard(
                model, batch, loss=request.loss, optimizer=request.optimizer, blocks=blocks
            )
    measured |= _further_measurements(model, batch, blocks, request)
    evidence = evidence_of(
        blocks, measured, batch, budget=request.budget, rate_growth=request.rate_growth()
    )
    limits = Thresholds.of(request.thresholds)
    kept, silenced = split_findings(evidence, limits, silenced=request.silence)
    said = [fewer] * bool(fewer) + [note for m in measured.values() for note in m.notes]
    return Diagnosis(
        title=request.title or type(unwrap(model)).__name__,
        blocks=blocks,
        measurements=measured,
        findings=kept,
        silenced=silenced,
        provenance=_provenance(model, batch, measured),
        setting=Setting(
            batch=batch,
            loss=request.loss,
            options={
                "thresholds": request.thresholds,
                "silence": request.silence,
                "blocks": blocks,
                "budget": request.budget,
            },
        ),
        notes=tuple(dict.fromkeys(said)),
    )


def _further_measurements(
    model: nn.Module, batch: Batch, blocks: Blocks, request: _Request
) -> dict[str, Measurement]:
    """The certificate of networks that have one; with full probes the deletions and the curvature."""
    measured: dict[str, Measurement] = {}
    family = "bathyscope.nets.nest"  # whoever built a network of it imported it
    if any(kind.__module__ == family for kind in type(unwrap(model)).__mro__):
        from bathyscope.diagnosis.certified import certificate

        if (known := certificate(model, batch, loss=request.loss, blocks=blocks)) is not None:
            measured[known.name] = known
    if request.probes == "full" and any(block.droppable for block in blocks):
        begin_stage("each block left out", 2, 4)
        measured["deletion"] = measure.deletion(model, batch, loss=request.loss, blocks=blocks)
    if request.probes == "full":
        from bathyscope.diagnosis.curvature_probe import curvature_probe  # of full probes alone

        begin_stage("curvature", 3, 4)
        measured["curvature"] = curvature_probe(
            model, batch, loss=request.loss, blocks=blocks, optimizer=request.optimizer
        )
    return measured


def _provenance(
    model: nn.Module, batch: Batch, measured: Mapping[str, Measurement]
) -> dict[str, Number]:
    tensor = next(tensors_in(batch[0]))
    parameters = list(named_parameters(unwrap(model)).values())
    return {
        "bathyscope": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(tensor.device),
        "threads": torch.get_num_threads(),
        "dtype": str(min(parameters, key=is_packed).dtype).removeprefix("torch."),
        "mode": "train" if model.training else "eval",
        "batch": " × ".join(map(str, tensor.shape)),
        "parameters": sum(p.numel() for p in parameters),
        "loss": _loss_of(measured),
    }


def _loss_of(measured: Mapping[str, Measurement]) -> Number:
    return measured["gradients"].settings.get("loss")
