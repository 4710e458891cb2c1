"""Many runs of one small network as one computation.

The parameters of all runs are the rows of one matrix θ, and one vectorised pass serves them all: a
matrix product of 64 small networks costs little more than that of one. Each run
keeps its own learning rate, seed, data order and fate: one that diverges leaves the stack with the
weights it had, and the others never notice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.utils import parameters_to_vector

from bathyscope.core.arguments import check_function
from bathyscope.core.batch import check_labels, run_forward
from bathyscope.core.errors import UsageError, shorten
from bathyscope.core.json_values import JsonObject
from bathyscope.training.batches import (
    Examples,
    TrainingBatches,
    check_examples,
    convert_examples,
    derived_seed,
)
from bathyscope.training.config import TrainingConfig
from bathyscope.training.divergence import Divergence, first_not_finite
from bathyscope.training.losses import loss_of, num_correct
from bathyscope.training.records import EpochSums, step_record
from bathyscope.training.runner import Outcome, built
from bathyscope.training.schedules import learning_rate
from bathyscope.training.stacked_forward import stacked_forward
from bathyscope.training.stacked_gradient import (
    StackedGradient,
    as_parameters,
    stacked_gradient,
)

_MAY_DIFFER = {"lr", "seed"}
# What one stacked step does not do; each must keep its default.
_MUST_BE_DEFAULT = (
    "accumulate",
    "clip_norm",
    "channels_last",
    "compile",
    "patience",
)


def fit_stacked(
    build: Callable[[], nn.Module],
    train: Examples,
    *,
    configs: Sequence[TrainingConfig],
    test: Examples | None = None,
) -> list[tuple[Outcome, dict[str, Tensor]]]:
    """Train one network for many learning rates and seeds at once, as if one by one.

    Args:
        build: makes the network; called under each run's seed. It may hold no buffers (BatchNorm) and
            draw no random numbers (dropout).
        train: inputs and targets, the same for all.
        configs: of every run; they may differ in `lr` and `seed` only. The optimizer is sgd.
        test: evaluated at the end of epochs, as the configuration says.

    Returns:
        The outcome of every run and its final weights by name (for `load_state_dict`), in the order of
        the configurations: those that `fit` gives, up to rounding.

    Raises:
        UsageError: the configurations or the network cannot be stacked.

    Examples:
        >>> x = torch.randn(20, 4, dtype=torch.float64)
        >>> base = TrainingConfig(loss="mse", batch_size=None, epochs=5, precision="float64")
        >>> runs = [base.model_copy(update={"lr": lr}) for lr in (0.1, 0.01)]
        >>> trained = fit_stacked(lambda: nn.Linear(4, 4), (x, -x), configs=runs)
        >>> [(outcome.status, list(weights)) for outcome, weights in trained]
        [('finished', ['weight', 'bias']), ('finished', ['weight', 'bias'])]
    """
    check_function("build", build)
    _check_configs(configs)
    check_examples(train, configs[0], what="training")
    if test is not None:
        check_examples(test, configs[0], what="test")
    train = convert_examples(train, configs[0])
    models = _build_models(build, configs, train[0])
    first = next(iter(models.values()))
    _check_model(first)
    with torch.no_grad():
        output = run_forward(first, train[0][:1])
    for examples in (train, test):
        if examples is not None and configs[0].loss == "cross_entropy":
            check_labels(output, examples[1])
    fates = [_Fate(c, models[c.seed], TrainingBatches(train, c)) for c in configs]
    _Stack(fates, test=None if test is None else convert_examples(test, configs[0])).advance()
    return [(fate.outcome(), fate.weights) for fate in fates]


@dataclass
class _Fate:
    """What is kept of one run. Runs of one seed share the network they start from."""

    config: TrainingConfig
    model: nn.Module
    batches: TrainingBatches
    weights: dict[str, Tensor] = field(default_factory=dict)
    rows: Iterator[Examples] = field(default_factory=lambda: iter(()))
    history: list[JsonObject] = field(default_factory=list)
    sums: EpochSums = field(default_factory=EpochSums)
    result: dict[str, object] = field(default_factory=dict)
    divergence: Divergence | None = None

    def outcome(self) -> Outcome:
        diverged = self.divergence is not None
        return Outcome(
            status="diverged" if diverged else "finished",
            ending=str(self.divergence) if diverged else "finished",
            result=self.result,
            history=self.history,
        )


class _Stack:
    """The runs that are still in the race, in the order of the rows of θ.

    All parameters of a run are one row, so that norms and updates are single operations.
    """

    def __init__(self, fates: Sequence[_Fate], *, test: Examples | None) -> None:
        self.active = list(fates)
        self.config, self.template = fates[0].config, fates[0].model
        self.test = test
        self.loss = loss_of(self.config)
        self.shapes = {name: p.shape for name, p in self.template.named_parameters()}
        self.theta = torch.stack([parameters_to_vector(f.model.parameters()) for f in fates])
        self.theta = self.theta.detach()
        self.momentum: Tensor | None = None
        self.per_epoch = fates[0].batches.per_epoch
        every = self.config.epochs * self.per_epoch
        self.num_steps = min(every, self.config.max_steps or every)
        self.step = 0
        augments = self.config.flip or self.config.shift > 0
        self.shares_batches = self.per_epoch == 1 and not augments
        self._losses = vmap(self.loss)
        self._gradient = self._try_gradient()

    def _try_gradient(self) -> StackedGradient:
        """The way to the gradients, chosen by trying on the first rows of the data."""
        batches = self.active[0].batches
        first = (part[: batches.batch_size] for part in batches.examples)
        x, y = (part.expand(len(self.active), *part.shape) for part in first)
        if self.test is not None:
            self._outputs = stacked_forward(
                self.template, as_parameters(self.theta, self.shapes), x
            )
        return stacked_gradient(self.template, self._losses, self.theta, x=x, y=y)

    def advance(self) -> None:
        """All epochs, as long as a run is left."""
        epoch = 0
        while self.step < self.num_steps and self.active:
            for fate in self.active:
                fate.sums = EpochSums()
            for fate in self._fates_with_batches():
                fate.rows = fate.batches.epoch(epoch)
            for _ in range(min(self.per_epoch, self.num_steps - self.step)):
                self._step(epoch)
                if not self.active:
                    break
            self._end_epoch(epoch)
            epoch += 1
        for index, fate in enumerate(self.active):
            self._unstack(index, fate)

    def _step(self, epoch: int) -> None:
        batches = [next(fate.rows) for fate in self._fates_with_batches()]
        x, y = self._stack(batches)
        losses, outputs, gradient = self._gradient(self.theta, x, y)
        numbers = {"loss": losses, "gradient_norm": torch.linalg.vector_norm(gradient, dim=1)}
        correct = _num_correct(outputs, y)
        finite = torch.isfinite(losses) & torch.isfinite(numbers["gradient_norm"])
        if not bool(finite.all()):
            keep = finite.nonzero()[:, 0]
            self._retire(finite.tolist(), batches, numbers, epoch=epoch)
            gradient = gradient[keep]
            numbers = {name: values[keep] for name, values in numbers.items()}
            correct = None if correct is None else correct[keep]
        rates = [
            learning_rate(
                fate.config, self.step, steps=self.num_steps, steps_per_epoch=self.per_epoch
            )
            for fate in self.active
        ]
        self._update(gradient, rates)
        self.step += 1
        self._record(numbers, correct, rates, epoch=epoch, num_samples=len(batches[0][0]))

    def _stack(self, batches: list[Examples]) -> Examples:
        """Inputs and targets with the runs in front; a batch that all share is not copied."""
        if len(batches) == len(self.active):
            x, y = (torch.stack(parts) for parts in zip(*batches, strict=True))
            return x, y
        x, y = (t.expand(len(self.active), *t.shape) for t in batches[0])
        return x, y

    def _fates_with_batches(self) -> list[_Fate]:
        return self.active[:1] if self.shares_batches else self.active

    def _update(self, gradient: Tensor, rates: list[float]) -> None:
        """torch's SGD: g ← g + λθ, m ← μm + g, θ ← θ − η (m, or g + μm after Nesterov)."""
        config, step = self.config, gradient
        if config.weight_decay:
            step = step.add_(self.theta, alpha=config.weight_decay)
        if config.momentum:
            if self.momentum is None:
                self.momentum = step.clone()
            else:
                self.momentum.mul_(config.momentum).add_(step)
            step = (
                step.add_(self.momentum, alpha=config.momentum)
                if config.nesterov
                else self.momentum
            )
        self.theta.addcmul_(step, self.theta.new_tensor(rates)[:, None], value=-1)

    def _record(
        self,
        numbers: dict[str, Tensor],
        correct: Tensor | None,
        rates: list[float],
        *,
        epoch: int,
        num_samples: int,
    ) -> None:
        losses, norms = numbers["loss"].tolist(), numbers["gradient_norm"].tolist()
        rights = [None] * len(losses) if correct is None else correct.tolist()
        for fate, loss, norm, right, lr in zip(
            self.active, losses, norms, rights, rates, strict=True
        ):
            fate.sums.add(loss, right, num_samples=num_samples)
            if self.step % self.config.log_every == 0:
                accuracy = None if right is None else right / num_samples
                fate.history.append(
                    step_record(
                        self.step, epoch, loss=loss, gradient_norm=norm, lr=lr, accuracy=accuracy
                    )
                )

    def _end_epoch(self, epoch: int) -> None:
        every = self.config.evaluate_every
        scores: Sequence[dict[str, float] | None] = [None] * len(self.active)
        last = self.step >= self.num_steps
        if self.active and self.test is not None and every and ((epoch + 1) % every == 0 or last):
            scores = self._evaluate(*self.test)
        for fate, test in zip(self.active, scores, strict=True):
            record = fate.sums.record(self.step, epoch, test=test)
            fate.history.append(record)
            fate.result = {k: v for k, v in record.items() if k != "kind"}

    def _evaluate(self, x: Tensor, y: Tensor) -> list[dict[str, float]]:
        with torch.no_grad():
            x, y = (t.expand(len(self.active), *t.shape) for t in (x, y))
            outputs = self._outputs(as_parameters(self.theta, self.shapes), x)
            losses = self._losses(outputs, y).tolist()
        correct = _num_correct(outputs, y)
        if correct is None:
            return [{"loss": loss} for loss in losses]
        return [
            {"loss": loss, "accuracy": right / x.shape[1]}
            for loss, right in zip(losses, correct.tolist(), strict=True)
        ]

    def _retire(
        self,
        finite: list[bool],
        batches: list[Examples],
        numbers: dict[str, Tensor],
        *,
        epoch: int,
    ) -> None:
        """Take the runs whose numbers are not finite out of the stack, and say where each broke."""
        for index, fate in enumerate(self.active):
            if finite[index]:
                continue
            self._unstack(index, fate)
            fate.model.load_state_dict(fate.weights)
            fate.divergence = first_not_finite(
                fate.model,
                batches[0 if self.shares_batches else index],
                loss=self.loss,
                call=fate.model,
                step=self.step + 1,
            )
            fate.result = fate.divergence.result(
                epoch=epoch,
                loss=numbers["loss"][index].item(),
                gradient_norm=numbers["gradient_norm"][index].item(),
            )
            fate.history.append({"kind": "divergence"} | fate.result)
        keep = torch.tensor([i for i, good in enumerate(finite) if good], dtype=torch.long)
        self.active = [fate for fate, good in zip(self.active, finite, strict=True) if good]
        self.theta = self.theta[keep]
        self.momentum = None if self.momentum is None else self.momentum[keep]

    def _unstack(self, index: int, fate: _Fate) -> None:
        """Keep the weights a run has reached."""
        row = as_parameters(self.theta[index : index + 1], self.shapes)
        fate.weights = {name: tensor[0].clone() for name, tensor in row.items()}


def _num_correct(outputs: Tensor, y: Tensor) -> Tensor | None:
    """Right answers of every run, where the targets are labels."""
    if num_correct(outputs[0], y[0]) is None:
        return None
    return (outputs.argmax(dim=2) == y).sum(dim=1)


def _build_models(
    build: Callable[[], nn.Module], configs: Sequence[TrainingConfig], like: Tensor
) -> dict[int, nn.Module]:
    """The network of every seed."""
    models = {}
    for seed in dict.fromkeys(config.seed for config in configs):
        torch.manual_seed(derived_seed(seed, "weights"))
        models[seed] = built(build).to(like)
    return models


def _check_configs(configs: Sequence[TrainingConfig]) -> None:
    if not isinstance(configs, Sequence) or not all(
        isinstance(config, TrainingConfig) for config in configs
    ):
        raise UsageError(f"configs is a list of TrainingConfig, but {shorten(configs)} was given.")
    if not configs:
        raise UsageError("There is no configuration to train; give at least one.")
    first = configs[0]
    defaults = TrainingConfig()
    for name in TrainingConfig.model_fields:
        if name not in _MAY_DIFFER and any(
            getattr(c, name) != getattr(first, name) for c in configs
        ):
            raise UsageError(
                f"Stacked runs may differ in lr and seed, but {name} differs too; train those apart."
            )
    for name in _MUST_BE_DEFAULT:
        if getattr(first, name) != getattr(defaults, name):
            raise UsageError(
                f"Stacked training does not do {name}; leave it out or train one by one."
            )
    if first.optimizer != "sgd" or first.precision == "bfloat16":
        raise UsageError(
            f"Stacked training is sgd in float32 or float64, but {first.optimizer} in "
            f"{first.precision} was given; train those one by one."
        )


def _check_model(model: nn.Module) -> None:
    held = next((name for name, _ in model.named_buffers()), None)
    if held is not None:
        raise UsageError(
            f"The network holds the buffer {held}, which stacked runs cannot share; "
            "train it one by one."
        )
    drops = [n for n, m in model.named_modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    if drops:
        raise UsageError(
            f"The network draws random numbers ({drops[0]}), which stacked runs cannot repeat; "
            "train it one by one."
        )
    if any(not p.requires_grad for p in model.parameters()):
        raise UsageError("The network has frozen parameters; train it one by one.")
