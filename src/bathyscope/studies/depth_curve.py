"""The commonest study in few lines: a number over depth, one curve per kind of network, over seeds."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store


class DepthPreset(Preset):
    """Which kinds of network, at which depths, with how many seeds.

    Attributes:
        kinds: what is compared.
        depths: of every kind.
    """

    kinds: tuple[str, ...]
    depths: tuple[int, ...]


class DepthTask(Computation):
    """One kind at one depth with one seed. Override `value`."""

    kind: str
    depth: int
    seed: int

    def prefix(self) -> str:
        """`curse-plain-16-seed0`, by the name of the class."""
        return f"{type(self).__name__.lower()}-{self.kind}-{self.depth}-seed{self.seed}"

    def value(self) -> float:
        """The number that the curve shows."""
        raise NotImplementedError

    def rows(self) -> Iterator[dict[str, object]]:
        """The one number."""
        yield {"value": self.value()}


def depth_curve(
    name: str,
    *,
    title: str,
    shows: str,
    task: type[DepthTask],
    presets: Mapping[str, DepthPreset],
    checks: Callable[[pd.DataFrame], tuple[Check, ...]],
    label: str,
    decides: Mapping[str, str] | None = None,
    undecided: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Study:
    """A study that draws `task.value()` over depth, one curve per kind, means over seeds with their range.

    Args:
        name: `theme.kind_number`.
        title: what it is about, in a line.
        shows: what the paper shows there, in our words.
        task: what computes the number.
        presets: quick and full, and the paper's where it has settings.
        checks: from the table with the columns kind, depth, seed and value.
        label: of the vertical axis.
        decides: what the paper says there, by the first words of the check that decides it.
        undecided: what it says there and no check decides.
        notes: what a reader must know.
    """
    return Study(
        name=name,
        title=title,
        shows=shows,
        presets=presets,
        tasks=partial(_tasks, task),
        table=partial(_table, task),
        checks=lambda table, _: checks(table),
        draw=partial(_draw, title, label),
        decides=decides or {},
        undecided=undecided,
        notes=notes,
    )


def slope_over_depth(table: pd.DataFrame, kind: str) -> float:
    """The exponent p of value ∝ depth^p, from the means of the smallest and the largest depth."""
    means = table[table["kind"] == kind].groupby("depth")["value"].mean()
    ratio = pd.Series(means.iloc[[0, -1]]).apply("log").diff().iloc[-1]
    depths = pd.Series(means.index[[0, -1]], dtype=float).apply("log").diff().iloc[-1]
    return float(ratio / depths)


def slope_check(
    statement: str,
    table: pd.DataFrame,
    kind: str,
    *,
    above: float = -math.inf,
    below: float = math.inf,
) -> Check:
    """Whether the exponent over depth lies between two bounds, with its distance from the nearer one.

    The error is that of the two means over the seeds, √(Σ (s/(x̄ √n))²) over the logarithm of the depths'
    ratio; without a bound the exponent is reported and not judged.
    """
    slope, error = slope_over_depth(table, kind), _slope_error(table, kind)
    margin = min(slope - above, below - slope)
    if math.isinf(margin):
        return Check(statement, None, slope)
    return Check(
        f"{statement}; exponent, and distance from the bound",
        margin > 0,
        f"{slope:.4g}, {margin:.2g} ± {error:.1g}",
    )


def _slope_error(table: pd.DataFrame, kind: str) -> float:
    """The standard error of `slope_over_depth`, from the seeds at the smallest and the largest depth."""
    values = table[table["kind"] == kind].groupby("depth")["value"]
    relative = (values.sem() / values.mean()).iloc[[0, -1]]
    depths = relative.index.to_numpy(dtype=float)
    return float(math.hypot(*relative) / math.log(depths[-1] / depths[0]))


def _tasks(task: type[DepthTask], preset: DepthPreset) -> list[DepthTask]:
    return [
        task(kind=kind, depth=depth, seed=seed)
        for kind in preset.kinds
        for depth in preset.depths
        for seed in range(preset.seeds)
    ]


def _table(task: type[DepthTask], store: Store, preset: DepthPreset) -> pd.DataFrame:
    return store.frame(_tasks(task, preset), keys=("kind", "depth", "seed"))


def _draw(title: str, label: str, table: pd.DataFrame, preset: DepthPreset) -> Figure:
    figure, (ax,) = panels(width=5.8, height=3.6)
    label_axes(ax, title=title, x="depth", y=label, log="xy")
    mean_lines(ax, table, x="depth", y="value", by="kind")
    legend(ax)
    return figure
