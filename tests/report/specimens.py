"""Reports like those of real networks, made without a network: clean, exploding, collapsing."""

import math
import random

from bathyscope.core.records import Block, Finding, Measurement, Severity
from bathyscope.report import Judgment, Report

PROVENANCE = {
    "bathyscope": "0.1.0",
    "torch": "2.13.0",
    "hardware": "2 cores, CPU",
    "seed": 0,
    "dtype": "float32",
    "mode": "train",
    "batch": "64 × 1 × 32 × 32",
    "time": "2026-11-15 21:40 UTC",
}


def blocks(count: int) -> tuple[Block, ...]:
    def block(i: int) -> Block:
        stage = 3 * i // count
        width = 16 * 2**stage
        return Block(
            index=i,
            name=f"stage{stage + 1}.{i - math.ceil(stage * count / 3)}",
            end=f"stage{stage + 1}.{i - math.ceil(stage * count / 3)}",
            kind="Bottleneck",
            in_shape=(64, width, 32 >> stage, 32 >> stage),
            out_shape=(64, width, 32 >> stage, 32 >> stage),
            num_parameters=width * width * 9,
            changes_dimension=i > 0 and 3 * (i - 1) // count != stage,
            droppable=True,
        )

    return tuple(block(i) for i in range(count))


def _measurements(body: tuple[Block, ...], growth: float, seed: int, broken_from: int | None):
    rng = random.Random(seed)
    count = len(body)

    def noisy(value: float, spread: float = 0.08) -> float:
        return value * math.exp(rng.gauss(0, spread))

    ratio = [noisy(growth * (1.6 if b.changes_dimension else 1.0), 0.02) for b in body]
    product, running = [0.0] * count, 1.0
    for i in reversed(range(count)):
        running *= ratio[i]
        product[i] = running
    harm = abs(math.log(growth)) > 0.01
    condition = [noisy(40 * (1.12**i if harm else 1 + 0.02 * i), 0.2) for i in range(count)]
    cosine = [min(1.0, 0.3 + (0.7 * (i / count) ** 0.5 if harm else 0.1)) for i in range(count)]
    std = [noisy(1.0 + 0.01 * i) for i in range(count)]
    if broken_from is not None:
        for i in range(broken_from, count):
            condition[i] = math.inf
            std[i] = math.nan
    tables = {
        "activations": {
            "mean": tuple(rng.gauss(0, 0.1) for _ in body),
            "std": tuple(std),
            "dead_units": tuple(min(1.0, abs(rng.gauss(0.08, 0.04))) for _ in body),
            "non_finite": tuple(
                1.0 if broken_from is not None and i >= broken_from else 0.0 for i in range(count)
            ),
        },
        "representations": {
            "condition_samples": tuple(condition),
            "rank_samples": tuple(
                int(min(64, 64 / c * 1e6)) if c < math.inf else 1 for c in condition
            ),
            "mean_cosine": tuple(cosine),
            "tolerance_samples": (7.6e-6,) * count,
            "mode": ("samples",) * count,
        },
        "gradients": {
            "norm_in": tuple(1e-2 * p for p in product),
            "ratio": tuple(1 / r for r in ratio),
            "ratio_from_loss": tuple(1 / p for p in product),
        },
        "weights": {
            "condition_operator": tuple(noisy(60, 0.4) for _ in body),
            "spectral_norm": tuple(noisy(1.9) for _ in body),
            "worst_layer": tuple(f"{b.name}.conv2" for b in body),
        },
        "updates": {
            "largest_ratio": tuple(None if i % 7 == 3 else noisy(2e-3, 0.5) for i in range(count)),
        },
    }
    return tuple(
        Measurement(name=name, blocks=body, columns=columns, settings={"tolerance": 1e-7})
        for name, columns in tables.items()
    )


def clean(count: int = 54, *, title: str = "preresnet-164", seed: int = 0) -> Report:
    body = blocks(count)
    return Report(
        title=title,
        verdict=Judgment(level="clean", sentence="Nothing stands in the way of training."),
        blocks=body,
        measurements=_measurements(body, 1.0, seed, None),
        provenance=PROVENANCE,
        curves={"training loss": tuple((i, 2.3 * math.exp(-i / 12)) for i in range(31))},
    )


def exploding(count: int = 54, *, title: str = "preplain-164", seed: int = 1) -> Report:
    """A plain network: the gradient grows by a factor per block, the last blocks are singular."""
    body = blocks(count)
    growth = 10 ** (11.4 / count)
    broken = count - count // 6
    measured = _measurements(body, growth, seed, broken)
    largest = max(1 / r for r in measured[2]["ratio_from_loss"])
    labels = tuple(b.label for b in body)
    findings = (
        Finding(
            code="gradient-explodes",
            severity=Severity.PROBLEM,
            title="The gradient explodes on its way to the input",
            blocks=labels[: count // 2],
            evidence={"product": largest, "ratio_median": growth, "threshold": 1e4},
            why="The first blocks would be moved far beyond the region where the gradient is valid.",
            source="norm_preservation, section 3",
            remedy="Add identity shortcuts around blocks of equal shape: bathyscope treat.",
            score=11.4,
        ),
        Finding(
            code="singular-representation",
            severity=Severity.PROBLEM,
            title="The representation is singular",
            blocks=labels[broken:],
            evidence={"condition": math.inf, "rank": 1, "tolerance": 1e-7},
            why="All samples have become one: what is lost here no later block can bring back.",
            source="singularity, section IV",
            remedy=None,
            score=9.0,
        ),
        Finding(
            code="not-norm-preserving",
            severity=Severity.WARNING,
            title="Transitions do not preserve the norm of the gradient",
            blocks=tuple(b.label for b in body if b.changes_dimension),
            evidence={"ratio": 1.6 * growth},
            why="Transition blocks are where residual networks lose norm.",
            source="norm_preservation, theorem 2",
            remedy="Procrustes on the transition's convolution.",
            score=3.0,
        ),
        Finding(
            code="batchnorm-masks",
            severity=Severity.NOTE,
            title="BatchNorm hides the growth from the activations",
            blocks=labels[:1],
            evidence={"spread": 1.1},
            why="Activations look healthy while the gradient does not.",
            source="norm_preservation, section 5",
            score=1.0,
        ),
    )
    sentence = (
        f"The gradient grows {largest:.1e}-fold from the loss to the first block; "
        "lower the learning rate or add shortcuts before training."
    )
    return Report(
        title=title,
        verdict=Judgment(level="problem", sentence=sentence),
        blocks=body,
        measurements=measured,
        findings=findings,
        provenance=PROVENANCE,
        curves={"training loss": tuple((i, 2.3 + 0.01 * math.sin(i)) for i in range(31))},
        notes=("5 blocks without parameters have no update.",),
    )


def staged(count: int = 54) -> Report:
    """Healthy at the start, singular after 8 steps: the order of events."""
    import dataclasses

    start, later = clean(count, title="preplain-164"), exploding(count)
    return dataclasses.replace(later, stages=(("at the start", start), ("after 8 steps", later)))


def treated(count: int = 54) -> Report:
    import dataclasses

    return dataclasses.replace(clean(count, title="preplain-164"), before=exploding(count))
