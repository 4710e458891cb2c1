"""The grid of figures 7 and 8: final losses over depths, learning rates and seeds, stacked."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from bathyscope.core.json_values import JsonObject
from bathyscope.papers.shortcut_length.studies.gradient_descent import final_losses
from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels
from bathyscope.studies.examples import optimal_linear_loss, second_moments, whitened_examples
from bathyscope.studies.record import Check, Preset
from bathyscope.studies.store import Store

COMPARED = ("shortcut_2", "orthogonal", "xavier")
LABELS = {name: KINDS[name].label for name in COMPARED}
RATES = tuple(float(f"{rate:.4g}") for rate in np.geomspace(1e-3, 2.0, 10))
# Runs that are one computation: this many that the activations of a layer stay in the cache.
_NUMBERS_AT_ONCE = 500_000


class RatePreset(Preset):
    """Settings of figures 7 and 8."""

    sources: ClassVar = {
        "data": "printed: appendix B, whitened MNIST",
        "depths": "not printed but for the largest: read off the axis",
        "rates": "printed: at log scale; the values are not",
        "epochs": "printed: 1,000",
        "num_train": "not printed: all for linear networks, 1,000 with ReLUs",
        "seeds": "not printed: means, here over ten",
    }
    depths: tuple[int, ...]
    rates: tuple[float, ...] = RATES
    epochs: int = 1000
    num_train: int | None = None


class RateGrid(Computation):
    """Gradient descent of one network at one depth, for every learning rate and seed.

    Attributes:
        kind: of `networks.KINDS`.
        depth: weight matrices.
        relu: put ReLUs at the mid positions.
        data: name of the data set.
        num_train: samples; a linear network takes the second moments of all.
        rates: learning rates of L = 1/(2m) Σ ‖y − ŷ‖².
        seeds: how many.
        epochs: steps.
        precision: of the computation.
    """

    kind: str
    depth: int
    relu: bool
    data: str
    num_train: int | None
    rates: tuple[float, ...]
    seeds: int
    epochs: int
    precision: Literal["float32", "float64"]
    components: int = 10

    def prefix(self) -> str:
        """`rates-xavier-16-mnist`."""
        return f"rates-{self.kind}{'-relu' if self.relu else ''}-{self.depth}-{self.data}"

    def seeds_used(self) -> tuple[int, ...]:
        """Of the weights."""
        return tuple(range(self.seeds))

    def rows(self) -> Iterator[JsonObject]:
        """One row a learning rate and seed: the final loss, infinite where it diverged."""
        examples = (whitened_examples if self.relu else second_moments)(
            self.data, self.components, self.num_train
        )
        optimum = optimal_linear_loss(*examples)
        dtype = {"float32": torch.float32, "float64": torch.float64}[self.precision]
        examples = examples[0].to(dtype), examples[1].to(dtype)
        build = partial(KINDS[self.kind].build, self.depth, width=self.components, relu=self.relu)
        # the mean over entries that the loop minimizes is 2/d times L
        factor = self.components / 2
        points = [(rate, seed) for rate in self.rates for seed in range(self.seeds)]
        at_once = max(1, _NUMBERS_AT_ONCE // examples[0].numel())
        for start in range(0, len(points), at_once):
            part = points[start : start + at_once]
            runs = [(rate * factor, seed) for rate, seed in part]
            losses = final_losses(build, examples, points=runs, steps=self.epochs)
            for (rate, seed), loss in zip(part, losses, strict=True):
                yield {"rate": rate, "seed": seed, "loss": loss * factor, "optimum": optimum}


def tasks(preset: RatePreset, *, relu: bool) -> list[RateGrid]:
    """One stacked computation a network and depth; the deepest first, to share the cores well."""
    return [
        preset.task(
            RateGrid, kind=kind, depth=depth, relu=relu, precision="float32" if relu else "float64"
        )
        for depth in sorted(preset.depths, reverse=True)
        for kind in COMPARED
    ]


def table(store: Store, preset: RatePreset, *, relu: bool) -> pd.DataFrame:
    """One row per network, depth, learning rate and seed."""
    frame = store.frame(tasks(preset, relu=relu), keys=("kind", "depth"))
    return frame.sort_values(["kind", "depth", "rate", "seed"], ignore_index=True)


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """The learning rate with the smallest mean final loss, for every network and depth.

    A rate at which any run diverged has an infinite mean. `flat` says that the losses of all rates
    that did not diverge lie within 1 % of one another, so that the best one means little.
    """
    means = table.groupby(["kind", "depth", "rate"], as_index=False)["loss"].mean()
    rows = []
    for (kind, depth), group in means.groupby(["kind", "depth"]):
        best = group.loc[group["loss"].idxmin()]
        finite = group["loss"][np.isfinite(group["loss"])]
        flat = bool(len(finite) and finite.max() <= 1.01 * finite.min())
        rows.append({"kind": kind, "depth": depth, "rate": best["rate"], "flat": flat})
    return pd.DataFrame(rows)


def at_best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """The runs at the best learning rate of their network and depth."""
    return table.merge(best_rates(table)[["kind", "depth", "rate"]], on=["kind", "depth", "rate"])


def at_the_edge(table: pd.DataFrame) -> Check:
    """The networks and depths whose best learning rate is the smallest or the largest that was tried."""
    ends = {float(table["rate"].min()), float(table["rate"].max())}
    best = best_rates(table)
    rows = best[best["rate"].isin(ends) & ~best["flat"]]
    text = ", ".join(f"{LABELS[row.kind]} at depth {row.depth}" for row in rows.itertuples())
    return Check(
        "networks whose best learning rate is an end of the grid, so that a better one may lie beyond it",
        None,
        text or "none",
    )


def draw(table: pd.DataFrame, *, column: str, y: str, depths: tuple[int, ...]) -> Figure:
    """Best final losses, and the learning rates that give them, over depth."""
    figure, (left, right) = panels(2)
    label_axes(left, title="best final loss", x="depth (weight matrices)", y=y, log="xy")
    mean_lines(
        left, at_best_rates(table), x="depth", y=column, by="kind", order=COMPARED, labels=LABELS
    )
    label_axes(
        right,
        title="learning rate that gives it",
        x="depth (weight matrices)",
        y="learning rate",
        log="xy",
    )
    sharp = best_rates(table).query("not flat")
    mean_lines(right, sharp, x="depth", y="rate", by="kind", order=COMPARED, labels=LABELS)
    for ax in (left, right):
        ax.set_xticks(depths, [str(d) for d in depths])
        ax.minorticks_off()
    rates = sorted(set(table["rate"]))
    right.set_yticks(rates, [f"{rate:.2g}" for rate in rates])
    legend(left)
    return figure
