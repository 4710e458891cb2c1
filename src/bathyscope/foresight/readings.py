"""What the first steps of a training show, in a few numbers that mean the same for any network."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, check_batches, check_parameters, run_forward
from bathyscope.core.fetch import fetch, to_host
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors, predictions
from bathyscope.core.preserve import preserve_model
from bathyscope.core.progress import report_progress
from bathyscope.core.stepping import TrainingStep, copy_training, train_steps
from bathyscope.foresight.goal import Goal, goal_of, targets_of

STAGES = (1, 8, 16, 32)
"""Steps after which a copy is looked at; the first shows the start: its gradient and its first step."""

_FLOOR = 1e-12
_GOOD_UPDATE = -2.5  # log₁₀ of the relative step of networks that train, between 1e-3 and 1e-2
_SPIKE = 3.0  # largest excess of a loss, as a logarithm: e³ times the constant baseline's is as bad as more


def is_telling(step: int, values: Mapping[str, float]) -> bool:
    """Whether a stage may be judged: not the start of a network with branches that start at zero.

    Its layers in there have no gradient yet, which looks as if it vanished; one step later they have.
    """
    return step > 1 or not values.get("unreached")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a copy shows after some steps.

    Attributes:
        step: steps taken.
        values: the features by name; all of them finite.
        losses: before each step.
        goal: what the training is after.
        finite: whether loss and gradient are.
    """

    step: int
    values: dict[str, float]
    losses: tuple[float, ...]
    goal: Goal
    finite: bool


def features(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: LossFn = F.cross_entropy,
    optimizer: torch.optim.Optimizer | None = None,
    at: Sequence[int] = STAGES,
) -> dict[int, dict[str, float]]:
    """What the first steps of a training show, after each of some numbers of steps.

    Features of the start (from the first step): `depth`, the logarithm of the number of weighted
    layers; `excess`, that of the first loss against the constant baseline's; `gradient`, the norm of the
    gradient (log₁₀); `gradient_range`, the largest against the smallest layer's (log₁₀ of root mean
    squares); `update`, `update_range`, the middle layer's relative step ‖ΔW‖/‖W‖ and the largest
    against it (log₁₀); `update_miss`, how far the middle one lies from 10^−2.5; `spread`, how much
    of the output depends on the sample (log₁₀ of a fraction); `unreached`, the fraction of layers whose
    gradient is zero, as those behind a zero-started branch have it for one step.

    Features of later stages: `gone`, the fraction of the way from the constant baseline's loss to zero, over
    the last quarter of the steps; `slope`, the logarithm of the loss in the second half against the
    first; `spike`, of the largest loss against the constant baseline's; `score`, the fraction of the way
    from chance to all labels right (or of the variance explained); `alignment`, the cosine between
    the change of the centered outputs and the centered targets; and the last gradient's range, the
    last step's updates and the spread again.

    Args:
        model: any module; it is left as it was, and a copy takes the steps.
        batches: one step each; where they are fewer than the steps they are taken again.
        loss: a scalar from output and targets.
        optimizer: the one meant for training; SGD at 0.1 by default. It is left as it was.
        at: after which steps; the last is how many are taken.

    Returns:
        The features by name, by step. They end where the loss is non-finite.

    Raises:
        UsageError: the batches, the loss, the optimizer or the model do not fit the others.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> batch = torch.randn(16, 4), torch.randint(3, (16,))
        >>> sorted(features(model, [batch], at=(1, 8)))
        [1, 8]
    """
    check_parameters(model)
    with preserve_model(model, copy_parameters=False):
        given = check_batches(model, batches, most=max(at))
        result = readings(model, given, loss=loss, optimizer=optimizer, at=at)
        return {reading.step: reading.values for reading in result}


def readings(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer | None,
    at: Sequence[int] = STAGES,
) -> Iterator[Reading]:
    """Train a copy and read it at each stage; no step is taken before the next stage is asked for."""
    twin, stepper = copy_training(model, optimizer)
    reader = Reader(twin, batches, loss=loss, at=at)
    for step in train_steps(twin, stepper, islice(cycle(batches), max(at)), loss=loss):
        report_progress("step", step.number, max(at))
        reader.before_step(step)
        if reader.is_finite:
            step.take()
        known = len(reader.result)
        reader.after_step()
        yield from reader.result[known:]
        if not reader.is_finite:
            return


class Reader:
    """Reads a copy, which keeps its hooks, at each stage while someone else trains it.

    It ends where something is non-finite.

    Attributes:
        result: the readings until now.
        is_finite: whether every loss and gradient was.
        asked: what `also` gave before each step; it comes in the same transfer as the loss.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        *,
        loss: LossFn,
        at: Sequence[int],
        also: Callable[[], Tensor] | None = None,
    ) -> None:
        self.model, self.batches, self.loss, self.at = model, batches, loss, at
        self.also, self.asked = also, list[float]()
        trained = [p for p in model.parameters() if p.requires_grad]
        self.weights = [p for p in trained if p.ndim >= 2 and p.numel()] or trained
        self.ran: set[int] = set()
        # only while the next step is one that is read: hooks cost every module's call
        self.hooks = Hooks()
        self._look_who_runs(1)
        self.result: list[Reading] = []
        self.is_finite = True
        self.losses, self.scores = list[float](), list[float | None]()
        self.goal: Goal | None = None
        self.first: Tensor | None = None
        self.step = 0
        self.output: object = None
        self.taking_part: list[nn.Parameter] = []
        self.old: list[Tensor] = []
        self.layers: list[float] = []

    def _look_who_runs(self, step: int) -> None:
        """Note which layers run in a step, where it is read."""
        self.hooks.remove()
        self.ran.clear()
        if step != 1 and step not in self.at:
            return
        for module in self.model.modules():
            own = {id(p) for p in module.parameters(recurse=False)}
            if own:
                self.hooks.before_forward(module, lambda *_, own=own: self.ran.update(own))

    def before_step(self, step: TrainingStep) -> None:
        """Keep what the step starts from: the loss, the output, and at a stage the weights."""
        if not self.is_finite:
            return
        self.step, self.output = step.number, step.output
        if self.goal is None:
            self.goal = goal_of(step.output, self.batches, loss=self.loss, first_loss=step.loss)
            self.first = _centered(step.output)
        parts = self.goal.score_parts(step.output, targets_of(step.batch))
        asked = () if self.also is None else (self.also(),)
        value, *rest = step.loss_and(*asked, *(parts or ()))
        self.losses.append(value)
        self.asked += rest[: len(asked)]
        of_score = rest[len(asked) :]
        self.scores.append(None if parts is None else self.goal.score_of(of_score))
        read = step.number in self.at
        if read or step.number == 1:
            # a layer that did not run, as it has no use or was left out at random, says nothing of the step
            seen = [p for p in self.weights if p.grad is not None or id(p) in self.ran]
            self.taking_part = seen or self.weights
        self.old = _kept(self.taking_part) if read else []
        self.layers = _layer_gradients(self.taking_part) if read or step.number == 1 else []
        self._look_who_runs(step.number + 1)
        self.is_finite = math.isfinite(step.loss) and all(map(math.isfinite, self.layers))

    @property
    def reads_now(self) -> bool:
        """Whether `after_step` has something to do after the present step."""
        return not self.is_finite or self.step in self.at

    def after_step(self) -> None:
        """At a stage, and where it ends: the features."""
        output, self.output = self.output, None
        old, self.old = self.old, []
        if output is None or self.goal is None or (self.is_finite and self.step not in self.at):
            return
        values = {"depth": math.log10(len(self.weights))}
        if self.is_finite:
            values |= _step_features(self.taking_part, old, self.layers, output)
        values |= _loss_features(self.losses, self.scores, self.goal)
        if self.is_finite and self.step > 1:
            values["alignment"] = _alignment(self.model, self.batches[0], self.first, self.goal)
        self.result.append(
            Reading(self.step, values, tuple(self.losses), self.goal, self.is_finite)
        )


_LARGE = 2**20
"""Bytes of weights that are kept on the host, where they do not take from the room of the model."""


def _kept(weights: Sequence[Tensor]) -> list[Tensor]:
    """The weights as they are now; large ones of a device on the host, an eighth after the other."""
    given = [weight.detach() for weight in weights]
    size = sum(weight.nbytes for weight in given)
    kept = to_host(given, at_once=size // 8) if size > _LARGE else given
    return [old.clone() if old is now else old for old, now in zip(kept, given, strict=True)]


def _step_features(
    weights: Sequence[Tensor], old: Sequence[Tensor], layers: Sequence[float], output: object
) -> dict[str, float]:
    """Of one step: its gradients, its updates, and the output before it."""
    sizes_before = fetch([_norm(was) for was in old])
    pairs = zip(weights, old, strict=True)
    moved = fetch([_norm(was.to(new.device).sub_(new.detach())) for new, was in pairs])
    updates = [
        math.log10(max(change, _FLOOR) / max(size, _FLOOR))
        for (change,), (size,) in zip(moved, sizes_before, strict=True)
    ]
    updates = sorted(min(u, 6.0) for u in updates)
    middle = updates[len(updates) // 2]
    logs = [math.log10(max(g, _FLOOR)) for g in layers]
    sizes = [p.numel() for p in weights]
    total = math.sqrt(sum(n * g * g for n, g in zip(sizes, layers, strict=True)))
    return {
        "gradient": math.log10(max(total, _FLOOR)),
        "gradient_range": max(logs) - min(logs),
        "update": middle,
        "update_miss": abs(middle - _GOOD_UPDATE),
        "update_range": updates[-1] - middle,
        "spread": _spread(output),
        "unreached": sum(g == 0 for g in layers) / len(layers),
    }


def _norm(x: Tensor) -> Tensor:
    """‖x‖ in float64: the squares of large float32 weights are beyond float32."""
    real = torch.view_as_real(x) if x.is_complex() else x
    norm: Tensor = torch.linalg.vector_norm(real, dtype=torch.float64)
    return norm


def _loss_features(
    losses: Sequence[float], scores: Sequence[float | None], goal: Goal
) -> dict[str, float]:
    """Of the course until now."""
    constant, steps = goal.constant_loss, len(losses)
    excess = [_log_ratio(value, constant) for value in losses]
    if steps == 1:
        return {"excess": excess[0]}
    last = losses[-max(1, steps // 4) :]
    gone = 1 - sum(last) / len(last) / constant if math.isfinite(sum(last)) else -1.0
    known = [s for s in scores[-max(1, steps // 4) :] if s is not None and math.isfinite(s)]
    half = steps // 2
    return {
        "excess": excess[0],
        "gone": max(-1.0, gone),
        "slope": sum(excess[half:]) / (steps - half) - sum(excess[:half]) / half,
        "spike": max(excess),
        "score": max(-1.0, sum(known) / len(known)) if known else max(-1.0, gone),
    }


def _log_ratio(value: float, constant: float) -> float:
    """The logarithm of a loss against the constant baseline's, within bounds; the upper where non-finite."""
    if not math.isfinite(value):
        return _SPIKE
    return min(_SPIKE, max(-_SPIKE, math.log(max(value, _FLOOR) / constant)))


def _layer_gradients(weights: Sequence[Tensor]) -> list[float]:
    """Root mean square of each weight's gradient; zero where it has none."""
    reached = [p for p in weights if p.grad is not None]
    norms = fetch([p.grad.norm() for p in reached if p.grad is not None])
    known = {id(p): norm for p, (norm,) in zip(reached, norms, strict=True)}
    return [known.get(id(p), 0.0) / math.sqrt(max(1, p.numel())) for p in weights]


def _spread(output: object) -> float:
    """log₁₀ of the fraction of the output's mean square that differs from sample to sample."""
    result = predictions(output)
    if result is None:
        return 0.0
    flat = result.detach().float()
    fraction = float((flat - flat.mean(0)).square().mean() / flat.square().mean().clamp_min(1e-30))
    return math.log10(min(1.0, max(fraction, _FLOOR))) if math.isfinite(fraction) else 0.0


def _centered(output: object) -> Tensor | None:
    result = predictions(output)
    return None if result is None else (result - result.mean(0)).detach().clone()


@torch.no_grad()
def _alignment(model: nn.Module, batch: Batch, first: Tensor | None, goal: Goal) -> float:
    """Cosine between the change of a batch's centered outputs since the start and its centered targets."""
    now = _centered(run_forward(model, copy_tensors(batch[0])))
    if first is None or now is None or now.shape != first.shape:
        return 0.0
    wanted = goal.direction(now, targets_of(batch))
    if wanted is None:
        return 0.0
    cosine = F.cosine_similarity((now - first).flatten(), wanted.flatten(), dim=0)
    return float(cosine) if bool(torch.isfinite(cosine)) else 0.0
