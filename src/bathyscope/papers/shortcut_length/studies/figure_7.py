"""Figure 7: best final losses of linear networks and the learning rates that give them."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies import learning_rates
from bathyscope.papers.shortcut_length.studies.learning_rates import (
    LABELS,
    RatePreset,
    at_best_rates,
    best_rates,
)
from bathyscope.studies.record import Check, Study
from bathyscope.studies.sampling import difference_of_means
from bathyscope.studies.store import Store

# the smallest difference from the optimum that counts: below it every network has arrived
_ARRIVED = 1e-3


def table(store: Store, preset: RatePreset) -> pd.DataFrame:
    """The grid with the distance from the optimal loss."""
    frame = learning_rates.table(store, preset, relu=False)
    # at the optimum rounding may leave a loss just below it
    return frame.assign(excess=(frame["loss"] - frame["optimum"]).clip(lower=1e-16))


def checks(table: pd.DataFrame, preset: RatePreset) -> tuple[Check, ...]:
    """The 2-shortcut network stays close to the optimum at any depth, with high rates."""
    runs = at_best_rates(table).groupby(["kind", "depth"])["excess"]
    worst = runs.get_group(("shortcut_2", runs.mean()["shortcut_2"].idxmax()))
    deepest = {kind: runs.get_group((kind, table["depth"].max())) for kind in LABELS}
    margin = difference_of_means(pd.Series([_ARRIVED] * len(worst)), worst)
    rates = best_rates(table).set_index(["kind", "depth"])["rate"].unstack("kind").iloc[-1]
    result = [
        Check(
            f"2-shortcut: within {_ARRIVED:g} of the optimal loss at every depth; the worst, and what "
            "is left to that",
            margin.is_clear,
            f"{worst.mean():.4g}, {margin}",
        )
    ]
    for kind in ("orthogonal", "xavier"):
        farther = difference_of_means(deepest[kind], deepest["shortcut_2"])
        times = float(deepest[kind].mean() / deepest["shortcut_2"].mean())
        result.append(
            Check(
                f"{LABELS[kind]}: at the largest depth farther from the optimum than 2-shortcut; "
                "difference, and times farther",
                farther.is_clear,
                f"{farther}, {times:.4g} times",
            )
        )
    higher = float(rates["shortcut_2"] / max(rates["orthogonal"], rates["xavier"]))
    result.append(
        Check(
            "2-shortcut takes a higher learning rate than both at the largest depth; ratio",
            higher > 1,
            higher,
        )
    )
    return (*result, learning_rates.at_the_edge(table))


def draw(table: pd.DataFrame, preset: RatePreset) -> Figure:
    """Distance from the optimal loss, and learning rate, over depth."""
    return learning_rates.draw(
        table, column="excess", y="final loss − optimal loss", depths=preset.depths
    )


STUDY = Study(
    name="shortcut_length.figure_7",
    title="Best final losses of linear networks, and the learning rates that give them",
    shows=(
        "After 1000 epochs at the best of ten learning rates, 2-shortcut linear networks stay "
        "close to the optimal loss at every depth and take higher rates, while Xavier and "
        "orthogonal networks without shortcuts fall behind."
    ),
    presets={
        "quick": RatePreset(depths=(4, 8, 16, 32), seeds=3),
        "full": RatePreset(data="mnist", depths=(4, 8, 16, 32, 64), seeds=5),
        "printed": RatePreset(data="mnist", depths=(4, 8, 16, 32, 64, 96), seeds=10),
    },
    tasks=partial(learning_rates.tasks, relu=False),
    table=table,
    checks=checks,
    decides={
        "2-shortcut: within": "section 5.3.1: the final losses of 2-shortcut linear networks stay close to "
        "optimal at every depth",
        "no shortcut, orthogonal": "figure 7, left: orthogonal networks fall behind with depth",
        "no shortcut, Xavier": "figure 7, left: Xavier networks fall behind with depth",
        "2-shortcut takes": "section 5.3.1: 2-shortcut networks can be trained with higher learning rates",
    },
    draw=draw,
    undecided=(
        "the curves of lengths 1 and 3 (figure 7): the text says nothing of them, and they are not run here",
    ),
    notes=(
        "The learning rates are those of L = 1/(2m) Σ ‖y − ŷ‖²; a rate counts only if none of its "
        "runs diverges. Where all rates give the same loss to 1 % the best one is not drawn.",
    ),
)
