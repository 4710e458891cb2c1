"""Planted events and clean trainings that were not used in development: how many the recorder gets right.

    python -m benchmarks events

A planted event counts as right where its kind is among the events, at its step or within one sampling
interval after it, and where it began is named; a clean training counts as right where nothing is reported.
The limits of the recorder were set on the trainings of `tests/recorder` (seeds 0 to 11) and on seeds
100 to 143 and 500 to 503; the seeds, depths of time and places here are others.
"""

from collections.abc import Iterator
from typing import Any

import torch

from tests.recorder import trainings as t

_AT, _STEPS, _EVERY = 270, 350, 25


def lines() -> Iterator[dict[str, Any]]:
    """One line a training, then the counts."""
    torch.set_num_threads(1)
    right = {"planted": 0, "clean": 0}
    for kind, began, case in planted():
        line = score_planted(kind, began, case)
        right["planted"] += line["right"]
        yield line
    for case in clean():
        line = score_clean(case)
        right["clean"] += line["right"]
        yield line
    yield {"benchmark": "events", "case": "all", **right}


def score_planted(kind: str, began: str, case: dict[str, Any]) -> dict[str, Any]:
    """One training with an event: whether kind, step and place are reported."""
    seen = t.train(steps=_STEPS, at=_AT, every=_EVERY, **case)
    result = [e for e in seen.events if e.code == kind and _AT <= e.step <= _AT + _EVERY]
    return {
        "benchmark": "events",
        "case": f"planted {kind} at {began}, {case['network']}, seed {case['seed']}",
        "right": any(e.began == began for e in result),
        "reported": [e.sentence for e in seen.events][:4],
    }


def score_clean(case: dict[str, Any]) -> dict[str, Any]:
    """One training without an event: whether nothing is reported."""
    seen = t.train(every=_EVERY, **case)
    return {
        "benchmark": "events",
        "case": ", ".join(f"{name} {value}" for name, value in ({"kind": "clean"} | case).items()),
        "right": not seen.events,
        "reported": [e.sentence for e in seen.events][:4],
    }


def planted() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Thirty trainings, and nine in which the change lasts: the kind, where it begins, and the settings."""
    cases: list[tuple[str, str, str, t.Plant]] = []
    for network in ("plain", "residual", "convolutional", "gpt"):
        cases += [
            ("loss-spike", "batch", network, t.wrong_labels),
            ("loss-spike", "learning rate", network, t.rate_jump(300)),
        ]
        if network != "gpt":  # tokens have no scale
            cases += [("non-finite", "input", network, t.nan_batch)]
    cases += [("loss-spike", "input", network, t.scaled_batch) for network in ("plain", "residual")]
    for network, locations in (
        ("plain", (2, 5)),
        ("residual", (0, 3)),
        ("convolutional", (1, 4)),
        ("gpt", (1,)),
    ):
        for i, location in enumerate(locations):
            label = t.label(network, location)
            if i == 0:
                cases.append(("non-finite", label, network, t.nan_in_block(location)))
            cases.append(("weights-changed", label, network, t.corrupted_weights(location, 6.0)))
    cases += [
        ("dead-units", t.label("plain", 0), "plain", t.dead_layer(0)),
        ("non-finite", t.label("plain", 4), "plain", t.overflow_in_block(4)),
        ("non-finite", t.label("residual", 5), "residual", t.overflow_in_block(5)),
        *(("entropy-collapse", f"blocks.{i}", "gpt", t.sharp_attention(i, 500)) for i in (0, 1, 2)),
    ]
    for network in ("plain", "residual", "convolutional"):  # what lasts from the planted step on
        cases += [
            ("loss-spike", "batch", network, t.lasting(t.shuffled_labels)),
            ("loss-spike", "input", network, t.lasting(t.scaled_batches)),
            ("repeated-batch", "batch", network, t.one_batch),
        ]
    for i, (kind, began, network, plant) in enumerate(cases):
        yield kind, began, {"network": network, "seed": 3001 + i, "plant": plant}


def clean() -> Iterator[dict[str, Any]]:
    """Thirty trainings in which nothing happens, ten of them of 2,000 steps."""
    short: tuple[dict[str, Any], ...] = (
        {"batch_size": 8},
        {"batch_size": 2, "lr": 3e-4},
        {"batch_size": 4, "lr": 1e-3},
        {"optimizer": "sgd", "lr": 0.03},
        {"optimizer": "sgd", "lr": 0.01, "batch_size": 4},
    )
    long: tuple[dict[str, Any], ...] = (
        {"batch_size": 8},
        {"batch_size": 2, "lr": 3e-4},
        {"optimizer": "sgd", "lr": 0.02},
    )
    seed = 4000
    for network in ("plain", "residual", "convolutional", "gpt"):
        for options in short:
            seed += 1
            yield {"network": network, "seed": seed, "steps": 400, **options}
    for network in ("plain", "residual", "convolutional"):
        for options in long:
            seed += 1
            yield {"network": network, "seed": seed, "steps": 2000, **options}
    yield {"network": "gpt", "seed": seed + 1, "steps": 2000, "batch_size": 8}
