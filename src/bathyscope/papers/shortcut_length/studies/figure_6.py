"""Figure 6: the fraction of negative eigenvalues at different losses, and with the gradient."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies.dynamics import (
    COMPARED,
    LABELS,
    PRESETS,
    DynamicsPreset,
    at_losses,
    below,
    diverging,
    table,
    tasks,
)
from bathyscope.studies.drawing import color, label_axes, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Study


def single_run(table: pd.DataFrame) -> pd.DataFrame:
    """The 2-shortcut network with the first seed, in the order of its steps."""
    return table[(table["kind"] == "shortcut_2") & (table["seed"] == 0)].sort_values("step")


def checks(table: pd.DataFrame, preset: DynamicsPreset) -> tuple[Check, ...]:
    """The index is smaller and falls where the gradient is largest."""
    result = below(table, "index", what="index")
    run = single_run(table)
    drop = run["index"].diff().idxmin()
    peak = run["gradient_norm"].idxmax()
    apart = abs(list(run.index).index(drop) - list(run.index).index(peak))
    result.append(
        Check(
            "the gradient is largest where the index falls most; measurements between the two, "
            "at most 2 wanted",
            apart <= 2,
            apart,
        )
    )
    start = float(run["index"].iloc[0])
    result.append(
        Check("index of the 2-shortcut network at its start, one half at zero", None, start)
    )
    return *result, diverging(table)


def draw(table: pd.DataFrame, preset: DynamicsPreset) -> Figure:
    """The index over the loss, and the index and the gradient of one run over epochs."""
    figure, (left, right) = panels(2)
    label_axes(left, title="index at different losses", x="loss", y="fraction of λ < 0", log="x")
    shown = at_losses(table, "index")
    mean_lines(
        left, shown, x="loss", y="index", by="kind", order=COMPARED, labels=LABELS, marker=None
    )
    legend_below(figure, left)
    run = single_run(table)
    run = run[run["step"] > 0]
    label_axes(
        right, title="one run of the 2-shortcut network", x="epoch", y="fraction of λ < 0", log="x"
    )
    right.plot(run["step"], run["index"], color=color(0), lw=1.5)
    right.yaxis.label.set_color(color(0))
    other = right.twinx()
    other.spines[["top", "left"]].set_visible(False)
    other.plot(run["step"], run["gradient_norm"], color=color(1), lw=1.5, ls=(0, (4, 2)))
    other.set_ylabel("gradient norm", color=color(1), size=9)
    other.tick_params(labelsize=8)
    return figure


STUDY = Study(
    name="shortcut_length.figure_6",
    title="Fraction of negative eigenvalues at different losses, and the gradient of one run",
    shows=(
        "The index of the 2-shortcut network is always the smaller one and drops at the beginning, "
        "just where the gradient is largest: the network leaves the saddle along directions of "
        "negative curvature."
    ),
    presets=PRESETS,
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "index of the 2-shortcut": "section 5.2: the index of the 2-shortcut network is always the smaller",
        "the gradient is largest": "section 5.2: the gradient is largest while the index drops",
    },
    draw=draw,
    unmet="At the printed settings it is met at every loss against orthogonal networks, against Xavier at "
    "81 % of the losses: both start at one half, and at the lowest losses that the Xavier runs reach they "
    "have fewer negative eigenvalues.",
)
