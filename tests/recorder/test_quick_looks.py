"""What is asked first at every step, to spare the rest, never keeps an event back."""

import math

import numpy as np
import pytest

from bathyscope.recorder import detect
from bathyscope.recorder.history import History, Signal, middle


def histories(seed, *, steps=160):
    """A noisy training with a trend, spikes, relapses and losses that are NaN now and then, step by step."""
    rng = np.random.default_rng(seed)
    history = History(("a", "b"))
    level, scale = float(rng.choice([-2.0, 0.1, 3.0])), 10 ** rng.uniform(-3, 0)
    for step in range(steps):
        loss = level + math.exp(-step / 20) + scale * float(rng.standard_t(3))
        loss += float(rng.choice([0.0, 0.0, 0.0, 0.0, 2.0])) if seed % 3 == 0 else 0.0
        loss += 1.0 if seed % 3 == 1 and step > 120 else 0.0
        loss = math.nan if seed % 5 == 0 and rng.random() < 0.05 else loss
        gradients = np.array([rng.uniform(0.5, 1.0), 1e-9 if seed % 4 == 0 and step > 100 else 1.0])
        rate = 1e-12 if seed % 4 == 1 and step > 100 else 0.1
        one = {"step": step, "loss": loss, "rate": rate, "input_scale": 1.0}
        history.append(Signal(**one, gradients=gradients, weights=np.ones(2)))
        yield history
        history.accept()


@pytest.mark.parametrize("seed", range(12))
def test_no_event_is_kept_back(seed):
    for history in histories(seed):
        if history.num_steps > 16 and math.isfinite(history.last_loss):
            assert detect._may_spike(history) or detect.loss_spike(history) is None
        assert detect._may_vanish(history) or detect.vanished_updates(history) is None


def test_the_series_hold_events():
    spikes = sum(detect.loss_spike(h) is not None for seed in range(12) for h in histories(seed))
    gone = sum(
        detect.vanished_updates(h) is not None for seed in range(12) for h in histories(seed)
    )
    assert spikes > 10
    assert gone > 10


def test_the_losses_before_the_last_are_kept_in_order():
    for history in histories(5):
        before = history.losses[:-1]
        known = np.sort(before[np.isfinite(before)])
        assert history.losses_before == known.tolist()
        if len(known):
            assert middle(history.losses_before) == pytest.approx(float(np.median(known)))
