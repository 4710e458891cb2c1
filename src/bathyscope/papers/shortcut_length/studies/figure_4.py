"""Figure 4: condition number of the Hessian at the start, over depth."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from bathyscope.curvature import Unresolved, exact_condition_number
from bathyscope.papers.shortcut_length.linear_network import linear_network_hessian
from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.papers.shortcut_length.studies.watches import PERCENTILE, unit_weights
from bathyscope.papers.shortcut_length.zero_point import zero_point
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels
from bathyscope.studies.examples import second_moments
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.sampling import difference_of_means
from bathyscope.studies.store import Store

ZERO = "zero_2"
"""The 2-shortcut network with weights exactly zero, by theorem 2."""
LABELS = {ZERO: "2-shortcut, zero"} | {name: kind.label for name, kind in KINDS.items()}
_GROWS = 2.0  # times from the shallowest to the deepest


class StartPreset(Preset):
    """Settings of figure 4."""

    sources: ClassVar = {
        "data": "printed: appendix B, whitened MNIST",
        "depths": "not printed: read off the axis of the figure",
        "components": "printed: appendix B, ten",
        "seeds": "printed: ten",
    }
    depths: tuple[int, ...]
    components: int = 10


class StartCondition(Computation):
    """The condition number of one network at one depth, drawn with one seed."""

    kind: str
    depth: int
    seed: int
    data: str
    components: int

    def prefix(self) -> str:
        """`start-xavier-16-mnist-seed0`."""
        return f"start-{self.kind}-{self.depth}-{self.data}-seed{self.seed}"

    def rows(self) -> Iterator[dict[str, object]]:
        """|λ|max / |λ|(0.1); infinite where the denominator is rounding."""
        x, y = second_moments(self.data, self.components, None)
        if self.kind == ZERO:
            eigenvalues = zero_point(x, y, n=2).eigenvalues(self.depth // 2)
        else:
            torch.manual_seed(self.seed)
            model = KINDS[self.kind].build(self.depth, width=self.components)
            weights, shortcut = unit_weights(model)
            matrix = linear_network_hessian(weights, x, y, shortcut=shortcut)
            eigenvalues = torch.linalg.eigvalsh(matrix)
        tolerance = math.sqrt(len(eigenvalues)) * torch.finfo(torch.float64).eps
        try:
            result = exact_condition_number(
                eigenvalues, definition="percentile", percentile=PERCENTILE, tolerance=tolerance
            )
            yield {"condition": result.value, "largest": result.largest}
        except Unresolved as reason:
            yield {"condition": math.inf, "at_least": reason.lower}


def tasks(preset: StartPreset) -> list[StartCondition]:
    """One computation a network, depth and seed; zero weights need no seed."""
    return [
        preset.task(StartCondition, kind=kind, depth=depth, seed=seed)
        for kind in LABELS
        for depth in preset.depths
        for seed in range(1 if kind == ZERO else preset.seeds)
    ]


def table(store: Store, preset: StartPreset) -> pd.DataFrame:
    """One row per network, depth and seed."""
    return store.frame(tasks(preset), keys=("kind", "depth", "seed"))


def checks(table: pd.DataFrame, preset: StartPreset) -> tuple[Check, ...]:
    """Constant for n = 2, growing for the others."""
    means = table.groupby(["kind", "depth"])["condition"].mean().unstack("kind")

    def spread(kind: str) -> float:
        return float(means[kind].max() / means[kind].min() - 1)

    result = [
        Check(
            "2-shortcut at zero: constant in depth to 1 % (10th percentile as the lower value, "
            "without interpolation); largest relative difference",
            spread(ZERO) <= 0.01,
            spread(ZERO),
        ),
        Check(
            "2-shortcut at its small random start: relative difference over the depths",
            None,
            spread("shortcut_2"),
        ),
    ]
    result += [_grows(table, kind) for kind in ("shortcut_1", "xavier", "orthogonal")]
    slower = bool((means["orthogonal"].iloc[1:] <= means["xavier"].iloc[1:]).all())
    deepest = float(means["xavier"].iloc[-1] / means["orthogonal"].iloc[-1])
    result.append(
        Check("orthogonal grows slower than Xavier; ratio at the deepest", slower, deepest)
    )
    return tuple(result)


def _grows(table: pd.DataFrame, kind: str) -> Check:
    """Whether the mean of log κ grows by more than that of two, beyond twice the error over the seeds."""
    logs = np.log10(table[table["kind"] == kind].set_index("depth")["condition"])
    last, first = logs.loc[[logs.index.max()]], logs.loc[[logs.index.min()]]
    grown = difference_of_means(last, first)
    beyond = difference_of_means(last - math.log10(_GROWS), first)
    return Check(
        f"{LABELS[kind]}: grows at least {_GROWS:g}-fold with depth; times, and log₁₀ beyond that",
        beyond.is_clear,
        f"{10**grown.value:.4g}, {beyond}",
    )


def draw(table: pd.DataFrame, preset: StartPreset) -> Figure:
    """Condition number over depth, mean and deviation over seeds."""
    figure, (ax,) = panels(width=6.2, height=4.0)
    label_axes(
        ax,
        title="Condition number of the Hessian at the start",
        x="depth (weight matrices)",
        y="|λ| max / |λ| 10th percentile",
        log="xy",
    )
    mean_lines(ax, table, x="depth", y="condition", by="kind", labels=LABELS)
    ax.set_xticks(preset.depths, [str(d) for d in preset.depths])
    ax.minorticks_off()
    legend(ax, location="upper left")
    return figure


STUDY = Study(
    name="shortcut_length.figure_4",
    title="Condition number of the Hessian at the start, over depth",
    shows=(
        "Linear networks on whitened data: with shortcuts of length 2 and small weights the "
        "condition number does not change with depth; with Xavier or orthogonal weights and no "
        "shortcuts, and with shortcuts of length 1, it grows."
    ),
    presets={
        "quick": StartPreset(depths=(2, 4, 8, 16, 24), seeds=2),
        "full": StartPreset(data="mnist", depths=(2, 4, 8, 16, 32), seeds=10),
        "printed": StartPreset(data="mnist", depths=(2, 4, 8, 16, 32, 64, 96), seeds=10),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "2-shortcut at zero": "section 5.1: the condition number of 2-shortcut linear networks does not "
        "change with depth",
        "1-shortcut, small": "section 2: with shortcuts of length 1 it grows without bound",
        "no shortcut, Xavier": "section 5.1: under Xavier it goes to infinity with depth",
        "no shortcut, orthogonal": "section 5.1: under an orthogonal start it goes to infinity with depth",
        "orthogonal grows slower": "section 5.1: it grows slower under an orthogonal start than under Xavier",
    },
    draw=draw,
    notes=(
        "The condition number is |λ|max over the 10th percentile of |λ|, as in appendix B; where "
        "the percentile is no more than rounding it counts as infinite and leaves a gap.",
    ),
)
