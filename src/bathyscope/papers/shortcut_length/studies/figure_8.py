"""Figure 8: best final losses with ReLUs at mid positions, and the learning rates for them."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies import learning_rates
from bathyscope.papers.shortcut_length.studies.learning_rates import (
    LABELS,
    RatePreset,
    at_best_rates,
)
from bathyscope.studies.record import Check, Study


def checks(table: pd.DataFrame, preset: RatePreset) -> tuple[Check, ...]:
    """The 2-shortcut network gains from depth, the others lose."""
    losses = at_best_rates(table).groupby(["kind", "depth"])["loss"].mean().unstack("kind")
    first, last = losses.iloc[0], losses.iloc[-1]
    best = float(losses["shortcut_2"].min() / first["shortcut_2"])
    result = [
        Check(
            "2-shortcut: a deeper network reaches a smaller loss than the shallowest; smallest loss "
            "as a fraction of the shallowest's",
            best < 1,
            best,
        )
    ]
    for kind in ("orthogonal", "xavier"):
        times = float(last[kind] / last["shortcut_2"])
        result.append(
            Check(
                f"{LABELS[kind]}: greater loss than 2-shortcut at the largest depth; times",
                times > 1,
                times,
            )
        )
    degraded = float(last["xavier"] / first["xavier"])
    result.append(
        Check(
            "no shortcut, Xavier: worse at the largest depth than at the smallest; times",
            degraded > 1,
            degraded,
        )
    )
    return (*result, learning_rates.at_the_edge(table))


def draw(table: pd.DataFrame, preset: RatePreset) -> Figure:
    """Final loss, and learning rate, over depth."""
    return learning_rates.draw(table, column="loss", y="final loss", depths=preset.depths)


STUDY = Study(
    name="shortcut_length.figure_8",
    title="Best final losses with ReLUs at mid positions, and the learning rates that give them",
    shows=(
        "With ReLUs deeper networks could reach smaller losses; 2-shortcut networks do, networks "
        "with Xavier or orthogonal starts and no shortcuts get stuck as they become deeper."
    ),
    presets={
        "quick": RatePreset(
            depths=(4, 8, 16, 32),
            seeds=2,
            num_train=100,
            epochs=500,
            rates=(0.01, 0.03, 0.1, 0.2, 0.5, 1.0),
        ),
        "full": RatePreset(data="mnist", depths=(4, 8, 16, 32), seeds=5, num_train=500),
        "printed": RatePreset(data="mnist", depths=(4, 8, 16, 32, 64), seeds=10, num_train=1000),
    },
    tasks=partial(learning_rates.tasks, relu=True),
    table=partial(learning_rates.table, relu=True),
    checks=checks,
    decides={
        "2-shortcut: a deeper": "section 5.3.1: with ReLUs deeper 2-shortcut networks reach smaller losses",
        "no shortcut, orthogonal": "section 5.3.1: orthogonal networks have difficulties to find these "
        "losses",
        "no shortcut, Xavier": "section 5.3.1: Xavier networks have difficulties to find these losses",
    },
    draw=draw,
    notes=(
        "The number of training samples is not printed in the paper for this figure; the preset "
        "`printed` takes 1,000. Computed in float32.",
    ),
)
