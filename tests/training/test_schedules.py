import math

import pytest

from bathyscope.training import TrainingConfig
from bathyscope.training.optimizers import learning_rate


def rates(config, steps, per_epoch):
    return [learning_rate(config, t, steps=steps, steps_per_epoch=per_epoch) for t in range(steps)]


def test_cosine_starts_at_lr_and_falls_to_nearly_zero():
    result = rates(TrainingConfig(lr=0.2, schedule="cosine"), 100, 10)
    assert result[0] == 0.2
    assert result[50] == pytest.approx(0.1)
    assert result == sorted(result, reverse=True)
    assert result[-1] == pytest.approx(0.1 * (1 + math.cos(0.99 * math.pi)))


def test_milestones_may_be_epochs_or_fractions():
    by_epoch = TrainingConfig(lr=1.0, schedule="step", milestones=(3, 6), gamma=0.5)
    by_fraction = by_epoch.model_copy(update={"milestones": (0.3, 0.6)})
    assert rates(by_epoch, 100, 10) == rates(by_fraction, 100, 10)
    assert rates(by_epoch, 100, 10)[29:31] == [1.0, 0.5]
    assert rates(by_epoch, 100, 10)[-1] == 0.25


def test_warm_up_rises_linearly_before_any_schedule():
    for schedule in ("constant", "step", "cosine"):
        config = TrainingConfig(lr=1.0, schedule=schedule, warmup_epochs=0.5)
        assert rates(config, 40, 8)[:4] == [0.25, 0.5, 0.75, 1.0]
        assert rates(config, 40, 8)[4] == 1.0


def test_patience_needs_evaluations_and_nesterov_momentum():
    assert TrainingConfig(evaluate_every=0).patience is None
    assert TrainingConfig(patience=3).evaluate_every == 1
    with pytest.raises(ValueError, match="patience needs evaluations"):
        TrainingConfig(patience=3, evaluate_every=0)
    assert TrainingConfig(nesterov=True, momentum=0.9).nesterov
    for wrong in ({"momentum": 0.0}, {"optimizer": "adamw"}):
        with pytest.raises(ValueError, match="nesterov needs"):
            TrainingConfig(**{"nesterov": True, "momentum": 0.9} | wrong)
