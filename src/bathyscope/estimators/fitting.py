"""Fitting: features by gradient steps on a part of the samples, prediction weights exactly on all."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from bathyscope.certificates.losses import ConvexLoss, LossName, convex_loss
from bathyscope.core.global_state import preserve_random_state
from bathyscope.estimators.forms import Form, Sizes, Truncated, nonlinear_features
from bathyscope.estimators.learning import Schedule, TensorSet, Training, learn_
from bathyscope.estimators.linear_part import LinearPart
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.solving import Readout, RidgePath, Solution
from bathyscope.nets.nest import NEst

RIDGES = (np.inf, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Candidates for squared loss, strongest first."""
SEPARABLE_RIDGES = (np.inf, 1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8)
"""Candidates for classification: small ones matter beside the existence ridge."""
EXISTENCE_RIDGES = (1e-3, 1e-4, 1e-5, 1e-6)
"""Candidates on the linear part, used where classes can be separated; the first without validation."""
_VALIDATION_TOLERANCE = 1e-4  # comparing ridges needs no exact minimizers


@dataclass(frozen=True)
class FitTask:
    """What is predicted: the loss and the number of outputs."""

    loss: LossName
    num_outputs: int

    def targets(self, samples: Samples) -> Tensor:
        """As the convex losses take them."""
        if self.loss == "cross_entropy":
            return torch.from_numpy(samples.Y.astype(np.int64))
        return torch.from_numpy(samples.Y.astype(np.float64).reshape(len(samples), -1))

    def convex(self, samples: Samples) -> ConvexLoss:
        """The loss with the targets of these samples."""
        return convex_loss(self.loss, self.targets(samples), num_outputs=self.num_outputs)

    def of_each(self, outputs: Tensor, targets: Tensor) -> Float[Tensor, " n"]:
        """The loss of each sample, for gradient steps and for validation."""
        if self.loss == "cross_entropy":
            return cross_entropy(outputs, targets, reduction="none")
        if self.loss == "logistic":
            return binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=1)
        return (outputs - targets).square().mean(dim=1)

    def tensors(self, samples: Samples) -> TensorSet:
        """In float32, for learning features; weights of mean one."""
        targets = self.targets(samples)
        return TensorSet(
            torch.from_numpy(samples.X).float(),
            targets.float() if targets.is_floating_point() else targets,
            torch.from_numpy(samples.weights * len(samples)).float(),
        )


@dataclass(frozen=True)
class Parts:
    """All samples of a task, those to learn from, and those to validate on if there are enough."""

    task: FitTask
    samples: Samples
    train: Samples
    validation: Samples | None


def initial_network(form: Form, sizes: Sizes, *, seed: int) -> NEst:
    """A network at random, without touching torch's own random state."""
    with preserve_random_state():
        torch.default_generator.manual_seed(seed)
        return form.build(sizes).float()  # whatever `torch.set_default_dtype` says


def learn_features_(
    network: NEst,
    form: Form,
    parts: Parts,
    *,
    training: Training,
    schedule: Schedule,
    seed: int,
    begin: bool = True,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[float]:
    """Learn the features of a network; the validation loss after each epoch.

    With `begin`, the network first becomes a linear predictor, so that features are learned from
    what it leaves; without, training resumes from the network's own weights.
    """
    generator = torch.Generator().manual_seed(seed)
    task = parts.task
    linear = _shrunk_linear(parts.train, task)
    train = task.tensors(parts.train)
    validation = None if parts.validation is None else task.tensors(parts.validation)

    def learn(module: nn.Module, parameters: list[nn.Parameter]) -> list[float]:
        return learn_(
            module,
            parameters,
            train=train,
            validation=validation,
            loss=task.of_each,
            schedule=schedule,
            generator=generator,
            progress=progress,
        )

    if training == "joint":
        if begin:
            form.begin_at_(network, linear)
        return learn(network, list(network.parameters()))
    history: list[float] = []
    for i, parameters in enumerate(form.stages(network), start=1):
        part = Truncated(network, i, linear=linear)
        history += learn(part, [*parameters, *part.head.parameters()])
    return history


def _shrunk_linear(samples: Samples, task: FitTask) -> Readout:
    """A linear predictor to begin from: least squares on standardized inputs under a small ridge."""
    X, w = samples.X, samples.weights
    if task.loss == "cross_entropy":
        Y = np.eye(task.num_outputs)[samples.Y.astype(int)]
    else:
        Y = samples.Y.astype(np.float64).reshape(len(X), -1)
    mean = w @ Y
    gram = X.T @ (w[:, None] * X) + _START_RIDGE * np.eye(X.shape[1])
    A = np.linalg.solve(gram, X.T @ (w[:, None] * (Y - mean)))
    factor = 1.0 if task.loss == "squared" else _LOGIT_SLOPE
    offset = mean if task.loss == "squared" else factor * (mean - 0.5)
    return Readout(
        torch.from_numpy(factor * A),
        torch.zeros(0, task.num_outputs, dtype=torch.float64),
        torch.from_numpy(offset),
    )


_START_RIDGE = 1e-2
_LOGIT_SLOPE = 4.0  # the logistic function has slope 1/4 at zero


def linear_part(
    samples: Samples, task: FitTask, *, existence_ridge: float = EXISTENCE_RIDGES[0]
) -> LinearPart:
    """The best linear predictor of these samples."""
    return LinearPart.of(
        torch.from_numpy(samples.X),
        loss=task.convex(samples),
        weights=torch.from_numpy(samples.weights),
        num_outputs=task.num_outputs,
        existence_ridge=existence_ridge,
    )


def path_of(
    network: NEst, samples: Samples, task: FitTask, *, existence_ridge: float = EXISTENCE_RIDGES[0]
) -> RidgePath:
    """The prediction weights on these samples, for every ridge; the network is in float64."""
    linear = linear_part(samples, task, existence_ridge=existence_ridge)
    return RidgePath.of(linear, nonlinear_features(network, torch.from_numpy(samples.X)))


@dataclass(frozen=True)
class Choice:
    """The ridges that validation chose, and what it chose the first from.

    Attributes:
        ridge: on the nonlinear features.
        existence_ridge: on the linear part, should the classes be separable.
        table: ridges and mean validation losses.
    """

    ridge: float = float("inf")
    existence_ridge: float = EXISTENCE_RIDGES[0]
    table: tuple[tuple[float, float], ...] = ()


def choose_ridges(network: NEst, parts: Parts, *, ridge: float | None = None) -> Choice:
    """The strongest ridge whose validation loss is within the standard error of the best.

    The standard error is that of the paired difference of the losses of each sample. Where the
    linear part separates the samples it learns from, nothing is left there for nonlinear features
    to explain: its own ridge is chosen first, and they must be better by two standard errors.

    Args:
        network: with its features learned, in float64.
        parts: samples to solve on, and samples to compare on.
        ridge: on the nonlinear features, if it is not to be chosen.
    """
    task, train, validation = parts.task, parts.train, parts.validation
    assert validation is not None, "ridges are compared on samples held out"
    x, w = torch.from_numpy(validation.X), torch.from_numpy(validation.weights)
    targets = task.targets(validation)
    linear = linear_part(train, task)
    separable = linear.existence_ridge > 0
    if separable:
        under = [linear.at(candidate) for candidate in EXISTENCE_RIDGES]
        risks = [w @ task.of_each(each(x), targets) for each in under]
        linear = under[int(torch.stack(risks).argmin())]
    existence = linear.existence_ridge if separable else EXISTENCE_RIDGES[0]
    if ridge is not None:
        return Choice(ridge, existence)
    path = RidgePath.of(linear, nonlinear_features(network, torch.from_numpy(train.X)))
    v = nonlinear_features(network, x)
    ridges = RIDGES if task.loss == "squared" else SEPARABLE_RIDGES
    losses: list[Tensor] = []
    start: Solution | None = None
    for candidate in ridges:
        start = path.solve(candidate, start=start, tolerance=_VALIDATION_TOLERANCE)
        losses.append(task.of_each(start.readout()(x, v), targets))
    best = _strongest(losses, w, caution=2.0 if separable else 1.0)
    means = [float(w @ loss) for loss in losses]
    return Choice(ridges[best], existence, tuple(zip(ridges, means, strict=True)))


def _strongest(losses: list[Tensor], w: Float[Tensor, " n"], *, caution: float) -> int:
    """The first within this many standard errors of the best."""
    best = int(torch.stack([w @ loss for loss in losses]).argmin())
    for i in range(best):
        difference = losses[i] - losses[best]
        mean = float(w @ difference)
        error = float((w @ (difference - mean).square() / len(w)).sqrt())
        if mean <= caution * error:
            return i
    return best
