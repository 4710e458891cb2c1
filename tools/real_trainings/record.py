"""Run one training and record what happened."""

import math
import time
from dataclasses import asdict, dataclass, field

import numpy as np
import torch

from tools.real_trainings.build import Training, build_training, take_step
from tools.real_trainings.case import Case
from tools.real_trainings.curve import decode_curve, encode_curve

NUM_EVALUATIONS = 12


@dataclass
class Record:
    """What happened in one training.

    Attributes:
        id: of the case.
        seed: of the initialization and of the order of the batches.
        steps: steps that were run; fewer than the budget after non-finite parameters.
        losses: training loss before each step, encoded by `encode_curve`.
        gradient_norms: before clipping, at each step, encoded.
        evaluated_at: numbers of steps after which held-out data was evaluated; the first is 0.
        evaluation: held-out loss at these.
        metric: held-out metric at these; empty where the task has none.
        constant_loss: of the best constant output on the training data.
        constant_evaluation: of the best constant output on the held-out data.
        nonfinite_at: the first step with a non-finite loss, or None.
        num_parameters: of the network.
        step_seconds: CPU seconds per step.
        cpu_seconds: of the whole, evaluations included.
        torch_version: of the run.
    """

    id: str
    seed: int
    steps: int
    losses: str
    gradient_norms: str
    evaluated_at: list[int]
    evaluation: list[float | None]
    metric: list[float | None]
    constant_loss: float
    constant_evaluation: float
    nonfinite_at: int | None
    num_parameters: int
    step_seconds: float
    cpu_seconds: float
    torch_version: str = field(default_factory=lambda: torch.__version__)

    def loss_curve(self) -> np.ndarray:
        """Training loss of each step."""
        return decode_curve(self.losses)

    def as_json(self) -> dict[str, object]:
        """The fields as JSON has them."""
        return asdict(self)


def evaluation_steps(budget: int) -> list[int]:
    """Numbers of steps after which to evaluate: 0, then denser at first, the budget last."""
    fractions = [(i / NUM_EVALUATIONS) ** 2 for i in range(NUM_EVALUATIONS + 1)]
    return sorted({round(budget * f) for f in fractions})


def run_case(case: Case, seed: int) -> Record:
    """Train a case to the end of its budget, or until its parameters are non-finite."""
    torch.set_num_threads(1)
    began = time.process_time()
    training = build_training(case, seed)
    wanted = set(evaluation_steps(case.budget))
    losses: list[float] = []
    norms: list[float] = []
    evaluated_at, evaluation, metric = [], [], []
    training_seconds = 0.0
    for step in range(case.budget + 1):
        if step in wanted:
            result = training.evaluate(training.model)
            evaluated_at.append(step)
            evaluation.append(_finite(result.loss))
            if result.metric is not None:
                metric.append(_finite(result.metric))
        if step == case.budget or (losses and _is_broken(training, losses[-1])):
            break
        step_began = time.process_time()
        loss, norm = take_step(training, next(training.batches))
        training_seconds += time.process_time() - step_began
        losses.append(loss)
        norms.append(norm)
    broken = [i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    return Record(
        id=case.id,
        seed=seed,
        steps=len(losses),
        losses=encode_curve(losses),
        gradient_norms=encode_curve(norms),
        evaluated_at=evaluated_at,
        evaluation=evaluation,
        metric=metric,
        constant_loss=training.constant_loss,
        constant_evaluation=training.constant_evaluation,
        nonfinite_at=broken[0] if broken else None,
        num_parameters=sum(p.numel() for p in training.model.parameters()),
        step_seconds=training_seconds / max(1, len(losses)),
        cpu_seconds=time.process_time() - began,
    )


def _is_broken(training: Training, loss: float) -> bool:
    """No later step can repair non-finite parameters; they are looked for after such a loss only."""
    if math.isfinite(loss):
        return False
    return not all(bool(p.isfinite().all()) for p in training.model.parameters())


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
