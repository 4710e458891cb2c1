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
from bathyscope.studies.sampling import difference_of_means


def checks(table: pd.DataFrame, preset: RatePreset) -> tuple[Check, ...]:
    """The 2-shortcut network gains from depth, the others lose."""
    runs = at_best_rates(table).groupby(["kind", "depth"])["loss"]
    means = runs.mean().unstack("kind")
    losses = {kind: [runs.get_group((kind, d)) for d in means.index] for kind in LABELS}
    first, last = losses["shortcut_2"][0], losses["shortcut_2"][-1]
    best = losses["shortcut_2"][int(means["shortcut_2"].argmin())]
    result = [
        _apart(
            "2-shortcut: a deeper network reaches a smaller loss than the shallowest", first, best
        )
    ]
    for kind in ("orthogonal", "xavier"):
        statement = f"{LABELS[kind]}: greater loss than 2-shortcut at the largest depth"
        result.append(_apart(statement, losses[kind][-1], last))
    result.append(
        _apart(
            "no shortcut, Xavier: worse at the largest depth than at the smallest",
            losses["xavier"][-1],
            losses["xavier"][0],
        )
    )
    return (*result, learning_rates.at_the_edge(table))


def _apart(statement: str, greater: pd.Series, smaller: pd.Series) -> Check:
    """Whether the first mean loss is above the second by more than twice the error."""
    gap = difference_of_means(greater, smaller)
    times = f"{float(greater.mean() / smaller.mean()):.4g} times"
    return Check(f"{statement}; difference, and times", gap.is_clear, f"{gap}, {times}")


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
