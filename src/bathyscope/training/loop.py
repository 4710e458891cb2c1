"""The loop: one optimizer step after the other, cheap, exact to resume, honest about divergence."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bathyscope.core.batch import LossFn, explain_forward_errors, loss_value
from bathyscope.core.errors import UsageError
from bathyscope.data.streaming import describe_lost_reader
from bathyscope.training.batches import Data, TrainingBatches, check_examples, convert_examples
from bathyscope.training.callbacks import Callback, Record
from bathyscope.training.config import TrainingConfig
from bathyscope.training.distributed import Group
from bathyscope.training.divergence import Divergence, first_non_finite
from bathyscope.training.evaluation import evaluate
from bathyscope.training.losses import loss_of, num_correct, num_judged
from bathyscope.training.memory_format import is_channels_last_safe
from bathyscope.training.optimizers import learning_rate, optimizer_of
from bathyscope.training.records import EpochSums, step_record


@dataclass
class Patience:
    """The best test loss until now, and how many evaluations ago it was seen."""

    best: float = math.inf
    waited: int = 0

    def is_over_after(self, loss: float, *, most: int | None) -> bool:
        """Take in one evaluation; whether the run should stop."""
        if loss < self.best:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return most is not None and self.waited >= most


@dataclass
class Loop:
    """A run in progress; `advance` takes it to its end.

    Attributes:
        model: trained in place.
        train: the training set.
        config: what decides the numbers.
        test: the test set, evaluated at the end of epochs.
        loss: a mean over samples; the one the configuration names for None.
        callbacks: called at every step, epoch and end.
        write: takes each line of the metrics.
        group: the processes that share the run.
    """

    model: nn.Module
    train: Data
    config: TrainingConfig
    test: Data | None = None
    loss: LossFn | None = None
    callbacks: Sequence[Callback] = ()
    write: Callable[[Record], None] = lambda record: None
    group: Group = field(default_factory=Group)

    step: int = 0
    epoch: int = 0
    index: int = 0
    sums: EpochSums = field(default_factory=EpochSums)
    patience: Patience = field(default_factory=Patience)
    result: dict[str, object] = field(default_factory=dict)
    reason: str | None = None
    divergence: Divergence | None = None

    def __post_init__(self) -> None:
        check_examples(self.train, self.config, what="training")
        if self.test is not None:
            check_examples(self.test, self.config, what="test")
        self.loss_fn = self.loss or loss_of(self.config)
        layout = _safe_layout(self.model, self.config)
        self.train = convert_examples(self.train, layout)
        self.test = None if self.test is None else convert_examples(self.test, layout)
        _convert_model(self.model, layout)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not self.parameters:
            raise UsageError(
                f"The model ({type(self.model).__name__}) has no parameter that requires a "
                "gradient; there is nothing to train."
            )
        self.optimizer = optimizer_of(self.config, self.parameters)
        self.batches = TrainingBatches(self.train, layout)
        self.call = _caller(self.model, self.config, device=self.train[0].device.type)
        every = self.config.epochs * self.batches.per_epoch
        self.num_steps = min(every, self.config.max_steps or every)

    def stop(self, reason: str) -> None:
        """End the run after this step, as finished, for this reason."""
        self.reason = reason

    def log(self, record: Record) -> None:
        """Add a line to the metrics."""
        self.write(record)

    @property
    def is_over(self) -> bool:
        """Whether no step is left to take."""
        return self.reason is not None or self.divergence is not None or self.step >= self.num_steps

    @describe_lost_reader()
    def advance(self, *, after_step: Callable[[], bool] = lambda: False) -> None:
        """Take steps until the run is over, or until `after_step` says to leave.

        Args:
            after_step: called when a step is complete and may be saved; True leaves the loop.
        """
        self.model.train()
        while not self.is_over:
            for x, y in self.batches.epoch(self.epoch, start=self.index):
                if not self._step(x, y):
                    return
                if self.is_over:
                    break
                if after_step():
                    return
            self._end_epoch()

    def _step(self, x: Tensor, y: Tensor) -> bool:
        """One optimizer step on one batch; False where a number is non-finite and none was taken."""
        lr = learning_rate(
            self.config, self.step, steps=self.num_steps, steps_per_epoch=self.batches.per_epoch
        )
        for settings in self.optimizer.param_groups:
            settings["lr"] = lr
        self.optimizer.zero_grad()
        loss, correct = self._backward(x, y)
        norm = self._gradient_norm()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._diverge(x, y, loss=loss, norm=norm)
            return False
        self.optimizer.step()
        self._complete(loss, correct, norm=norm, lr=lr, num_samples=len(x))
        return True

    def _backward(self, x: Tensor, y: Tensor) -> tuple[float, float | None]:
        """Gradients of the mean loss over the batch; the loss and the number of right answers."""
        total = len(x)
        if self.group.size == 1 and self.config.accumulate == 1:
            if self.step == 0:  # what does not fit shows now, and is one sentence
                with explain_forward_errors(x):
                    output = self.call(x)
                loss = loss_value(self.loss_fn, output, y)
            else:
                output = self.call(x)
                loss = self.loss_fn(output, y)
            loss.backward()
            correct = num_correct(output.detach(), y)
            return loss.item(), None if correct is None else correct.item()
        judged = num_judged(y)
        rows = self.group.part(total)
        x, y = x[rows], y[rows]
        sums = torch.zeros(3, dtype=torch.float64, device=x.device)
        for part in range(self.config.accumulate):
            piece = Group(part, self.config.accumulate).part(len(x))
            px, py = x[piece], y[piece]
            # the whole batch's mean is over its labels: parts with fewer of them weigh less
            weight = num_judged(py) / judged if judged else len(px) / total
            if weight == 0:
                continue
            output = self.call(px)
            loss = self.loss_fn(output, py) * weight
            loss.backward()
            correct = num_correct(output.detach(), py)
            if correct is not None and py.ndim > 1:
                correct = correct * (weight * total / len(px))
            sums[0] += loss.item()
            sums[1] += 0 if correct is None else correct
            sums[2] += correct is not None
        self.group.sum_(sums)
        self.group.sum_gradients_(self.parameters)
        self.group.copy_from_first_(self.model.buffers())
        value, right, labeled = sums.tolist()
        return value, right if labeled else None

    def _gradient_norm(self) -> float:
        """Norm of the whole gradient, before clipping; it is clipped here where so configured."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # nn.utils.get_total_norm does the same and costs half as much again in Python
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item()
        limit = self.config.clip_norm
        if limit is not None and limit < norm < math.inf:
            torch._foreach_mul_(gradients, limit / norm)
        result: float = norm
        return result

    def _complete(
        self, loss: float, correct: float | None, *, norm: float, lr: float, num_samples: int
    ) -> None:
        self.step += 1
        self.index += 1
        self.sums.add(loss, correct, num_samples=num_samples)
        record = step_record(
            self.step,
            self.epoch,
            loss=loss,
            gradient_norm=norm,
            lr=lr,
            accuracy=None if correct is None else correct / num_samples,
        )
        if self.step % self.config.log_every == 0:
            self.write(record)
        for callback in self.callbacks:
            callback.on_step(self, record)

    def _end_epoch(self) -> None:
        """Average, evaluate, record, and turn to the next epoch."""
        every, scores = self.config.evaluate_every, None
        if self.test is not None and every and ((self.epoch + 1) % every == 0 or self.is_over):
            scores = self._evaluate(self.test)
            if self.patience.is_over_after(scores["loss"], most=self.config.patience):
                self.stop(f"no better test loss in {self.config.patience} evaluations")
        record = self.sums.record(self.step, self.epoch, test=scores)
        self.write(record)
        self.result = {k: v for k, v in record.items() if k != "kind"}
        for callback in self.callbacks:
            callback.on_epoch(self, record)
        self.epoch, self.index, self.sums = self.epoch + 1, 0, EpochSums()

    def _evaluate(self, examples: Data) -> dict[str, float]:
        return evaluate(
            self.model,
            examples,
            loss=self.loss_fn,
            forward=self.call,
            batch_size=max(self.batches.batch_size // self.config.accumulate, 1),
            group=self.group,
        )

    def _diverge(self, x: Tensor, y: Tensor, *, loss: float, norm: float) -> None:
        """Record the end of a run whose numbers left the real line."""
        self.optimizer.zero_grad()
        eager = _caller(
            self.model, self.config.model_copy(update={"compile": False}), device=x.device.type
        )
        self.divergence = first_non_finite(
            self.model, (x, y), loss=self.loss_fn, call=eager, step=self.step + 1
        )
        self.result = self.divergence.result(epoch=self.epoch, loss=loss, gradient_norm=norm)
        self.write({"kind": "divergence"} | self.result)


def _safe_layout(model: nn.Module, config: TrainingConfig) -> TrainingConfig:
    """The configuration with channels-last only where no kernel writes past its memory with it."""
    safe = config.channels_last and is_channels_last_safe(model)
    return config.model_copy(update={"channels_last": safe})


def _convert_model(model: nn.Module, config: TrainingConfig) -> None:
    model.to(torch.float64 if config.precision == "float64" else torch.float32)
    if config.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _compile(model: nn.Module) -> Callable[[Tensor], Tensor]:
    if is_channels_last_safe(model):
        return torch.compile(model)
    # the compiler would take channels-last for convolutions by itself
    return torch.compile(model, options={"layout_optimization": False})


def _caller(model: nn.Module, config: TrainingConfig, *, device: str) -> Callable[[Tensor], Tensor]:
    """How the loop calls the model: compiled, under autocast, or plainly."""
    network = _compile(model) if config.compile else model
    if config.precision != "bfloat16":
        return network

    def call(x: Tensor) -> Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            result: Tensor = network(x).float()
            return result

    return call
