"""Planted events are noticed with kind, step and place; trainings without one stay quiet."""

import pytest

from tests.recorder import trainings as t

# what only a network that has learned can lose comes late, all else as soon as there is a band
LATE, EARLY = 150, 60
# kind that must be among the events of the planted step, where it began, and how it was planted
PLANTED = [
    *[("loss-spike", "input", n, t.scaled_batch, s) for n, s in (("plain", 0), ("residual", 1))],
    *[("loss-spike", "batch", n, t.wrong_labels, s) for n, s in (("plain", 0), ("residual", 0))],
    *[("non-finite", "input", n, t.nan_batch, 2) for n in ("plain", "residual", "convolutional")],
    *[("loss-spike", "learning rate", n, t.rate_jump(100), 3) for n in ("plain", "residual")],
    ("small-update", "learning rate", "residual", t.rate_to_zero, 4),
    *[
        ("non-finite", t.label(n, i), n, t.nan_in_block(i), 5)
        for n, i in (("plain", 1), ("residual", 4), ("convolutional", 2))
    ],
    *[
        ("non-finite", t.label(n, i), n, t.overflow_in_block(i), 6)
        for n, i in (("plain", 3), ("residual", 2))
    ],
    *[("dead-units", t.label("plain", i), "plain", t.dead_layer(i), 7) for i in (2, 4)],
    *[
        ("weights-changed", t.label(n, i), n, t.corrupted_weights(i), 8)
        for n, i in (("plain", 2), ("residual", 3), ("convolutional", 1))
    ],
    *[("entropy-collapse", f"blocks.{i}", "gpt", t.sharp_attention(i), 9) for i in (0, 2)],
    ("loss-spike", "batch", "plain", t.lasting(t.shuffled_labels), 10),
    ("loss-spike", "input", "residual", t.lasting(t.scaled_batches), 11),
    *[("repeated-batch", "batch", n, t.one_batch, 12) for n in ("plain", "gpt")],
]


@pytest.mark.parametrize(
    ("kind", "began", "network", "plant", "seed"),
    PLANTED,
    ids=[f"{kind}-{began}-{network}" for kind, began, network, _, _ in PLANTED],
)
def test_a_planted_event_is_noticed(kind, began, network, plant, seed):
    at = LATE if kind == "loss-spike" else EARLY
    seen = t.train(network, seed=seed, plant=plant, at=at, steps=at + 25)
    assert seen.events, "nothing was noticed"
    result = [e for e in seen.events if e.code == kind]
    assert result, [e.sentence for e in seen.events]
    assert result[0].began == began
    assert at <= result[0].step <= at + 20  # the interval between two samples


@pytest.mark.parametrize("steps", [200, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("plain", {"optimizer": "sgd", "lr": 0.02}),
        ("residual", {"batch_size": 4}),
        ("convolutional", {"optimizer": "sgd"}),
        ("residual", {"batch_size": 1, "lr": 3e-4}),
        ("gpt", {"batch_size": 8}),
    ],
)
def test_ordinary_noise_is_no_event(network, options, steps):
    seen = t.train(network, seed=11, steps=steps, **options)
    assert [e.sentence for e in seen.events] == []
