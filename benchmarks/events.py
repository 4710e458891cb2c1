"""Planted events and clean trainings that were not used in development: how many the recorder gets right.

    python -m benchmarks events

A planted event counts as right where its kind is among the events, at its step or within one sampling
interval after it, and where it began is named; a clean training counts as right where nothing is told.
The limits of the recorder were set on the trainings of `tests/recorder` (seeds 0 to 11); the seeds,
sizes and places here are others.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from bathyscope import nets
from bathyscope.recorder import Watch, watch
from tests.recorder import trainings as t

_AT, _STEPS, _EVERY = 230, 320, 25


def lines() -> Iterator[dict[str, Any]]:
    """One line a training, then the counts."""
    torch.set_num_threads(1)
    right = {"planted": 0, "clean": 0}
    for kind, began, case in planted():
        seen = _watch_training(**case)
        found = [e for e in seen.events if e.kind == kind and _AT <= e.step <= _AT + _EVERY]
        hit = any(e.began == began for e in found)
        right["planted"] += hit
        yield {
            "benchmark": "events",
            "case": f"planted {kind} at {began}, {case['network']}, seed {case['seed']}",
            "right": hit,
            "told": [e.sentence for e in seen.events][:4],
        }
    for case in clean():
        seen = _watch_training(**case)
        right["clean"] += not seen.events
        yield {
            "benchmark": "events",
            "case": f"clean {case['network']}, seed {case['seed']}, {case['steps']} steps",
            "right": not seen.events,
            "told": [e.sentence for e in seen.events][:4],
        }
    yield {"benchmark": "events", "case": "all", **right}


def planted() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Thirty trainings: the kind, where it begins, and the settings."""
    seed = 1000
    for network in ("plain", "residual", "gpt"):
        for plant, kind, began in (
            (t.scaled_batch, "loss-spike", "input"),
            (t.wrong_labels, "loss-spike", "batch"),
            (t.nan_batch, "not-finite", "input"),
            (t.rate_jump(200), "loss-spike", "learning rate"),
        ):
            if network == "gpt" and plant in (t.scaled_batch, t.nan_batch):
                continue  # tokens have no scale
            seed += 1
            yield kind, began, {"network": network, "seed": seed, "plant": plant}
    for network, places in (
        ("plain", (0, 4)),
        ("residual", (1, 5)),
        ("convolutional", (0, 3)),
        ("gpt", (0, 2)),
    ):
        for place in places:
            for plant, kind in (
                (t.nan_in_block(place), "not-finite"),
                (t.corrupted_weights(place, 20.0), "weights-changed"),
            ):
                seed += 1
                case = {"network": network, "seed": seed, "plant": plant}
                yield kind, t.label(network, place), case
    for network, place, plant, kind in (
        ("plain", 1, t.dead_layer(1), "units-die"),
        ("plain", 3, t.dead_layer(3), "units-die"),
        ("plain", 2, t.overflow_in_block(2), "not-finite"),
        ("residual", 0, t.overflow_in_block(0), "not-finite"),
    ):
        seed += 1
        yield kind, t.label(network, place), {"network": network, "seed": seed, "plant": plant}


def clean() -> Iterator[dict[str, Any]]:
    """Thirty-two trainings in which nothing happens, eight of them of 2,000 steps."""
    settings = (
        {"batch_size": 8},
        {"batch_size": 2, "lr": 3e-4},
        {"optimizer": "sgd", "lr": 0.03},
    )
    seed = 2000
    for network in ("plain", "residual", "convolutional", "gpt"):
        for steps in (400, 400, 2000) if network != "gpt" else (400, 400):
            for options in settings if steps == 400 else settings[:2]:
                seed += 1
                yield {"network": network, "seed": seed, "steps": steps, **options}
    for seed in (2101, 2102):
        yield {"network": "residual", "seed": seed, "steps": 2000, "optimizer": "sgd", "lr": 0.05}


def _watch_training(
    *, network: str, seed: int, steps: int = _STEPS, plant: t.Plant | None = None, **options: Any
) -> Watch:
    if network != "gpt":
        return t.train(
            network, seed=seed, steps=steps, at=_AT, plant=plant, every=_EVERY, **options
        )
    torch.manual_seed(seed)
    model = nets.build("gpt-3", vocabulary=16, width=16, heads=2, context=8)
    batch_size, rate = options.get("batch_size", 32), options.get("lr", 1e-3)
    optimizer = torch.optim.Adam(model.parameters(), lr=min(rate, 1e-3))
    generator = torch.Generator().manual_seed(seed)
    training = t.Training(model, optimizer, generator)
    with watch(model, every=_EVERY) as seen:
        for step in range(steps):
            start = torch.randint(16, (batch_size, 1), generator=generator)
            x = (start + torch.arange(8)) % 16
            y = (x + 1) % 16
            if plant is not None and step == _AT:
                x, y = plant(training, x, y)
            optimizer.zero_grad()
            F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    return seen
