"""Fitting: features by gradient steps on a part of the samples, prediction weights exactly on all."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from bathyscope.certificates.losses import ConvexLoss, LossName, convex_loss
from bathyscope.estimators.forms import Form, Sizes, Truncated, nonlinear_features
from bathyscope.estimators.learning import Schedule, TensorSet, Training, learn_
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.solving import Readout, RidgePath, Solution
from bathyscope.nets.nest import NEst

RIDGES = (np.inf, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Candidates for squared loss, strongest first."""
SEPARABLE_RIDGES = (np.inf, 1.0, 1e-1, 1e-2, 1e-4, 1e-6, 1e-8)
"""Candidates for classification: small ones matter beside the existence ridge."""
_VALIDATION_TOLERANCE = 1e-4  # comparing ridges needs no exact minimisers


@dataclass(frozen=True)
class Task:
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


def initial_network(form: Form, sizes: Sizes, *, seed: int) -> NEst:
    """A network at random, without touching torch's own random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return form.build(sizes)


def learn_features_(
    network: NEst,
    form: Form,
    task: Task,
    *,
    train: Samples,
    validation: Samples | None,
    training: Training,
    schedule: Schedule,
    seed: int,
    begin: bool = True,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[float]:
    """Learn the features of a network; the validation loss after each epoch.

    With `begin`, the network first becomes a linear predictor, so that features are learnt from
    what it leaves; without, training goes on from the network's own weights.
    """
    generator = torch.Generator().manual_seed(seed)
    linear = _shrunk_linear(train, task)
    sets = task.tensors(train), None if validation is None else task.tensors(validation)

    def learn(module: nn.Module, parameters: list[nn.Parameter]) -> list[float]:
        return learn_(
            module,
            parameters,
            train=sets[0],
            validation=sets[1],
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


def _shrunk_linear(samples: Samples, task: Task) -> Readout:
    """A linear predictor to begin from: least squares on standardised inputs under a small ridge."""
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


def path_of(network: NEst, samples: Samples, task: Task) -> RidgePath:
    """The prediction weights on these samples, for every ridge; the network is in float64."""
    x = torch.from_numpy(samples.X)
    return RidgePath.of(
        x,
        nonlinear_features(network, x),
        loss=task.convex(samples),
        weights=torch.from_numpy(samples.weights),
        num_outputs=task.num_outputs,
    )


@dataclass(frozen=True)
class Choice:
    """The ridge that validation chose, and what it chose from."""

    ridge: float
    table: tuple[tuple[float, float], ...]


def chosen_ridge(
    network: NEst, task: Task, *, train: Samples, validation: Samples, caution: float = 1.0
) -> Choice:
    """The strongest ridge whose validation loss is within `caution` standard errors of the best.

    The standard error is that of the paired difference of the losses of each sample.
    """
    path = path_of(network, train, task)
    x = torch.from_numpy(validation.X)
    v = nonlinear_features(network, x)
    targets, w = task.targets(validation), torch.from_numpy(validation.weights)
    ridges = RIDGES if task.loss == "squared" else SEPARABLE_RIDGES
    losses: list[Tensor] = []
    start: Solution | None = None
    for ridge in ridges:
        start = path.solve(ridge, start=start, tolerance=_VALIDATION_TOLERANCE)
        losses.append(task.of_each(start.readout()(x, v), targets))
    means = torch.stack([w @ loss for loss in losses])
    best = int(means.argmin())
    for i in range(best + 1):
        difference = losses[i] - losses[best]
        mean = float(w @ difference)
        error = float((w @ (difference - mean).square() / len(w)).sqrt())
        if mean <= caution * error:
            best = i
            break
    return Choice(ridges[best], tuple(zip(ridges, means.tolist(), strict=True)))
