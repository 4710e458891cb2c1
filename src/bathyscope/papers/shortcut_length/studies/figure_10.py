"""Figure 10: the path of a sample through the network of theorem 1, around the others."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from bathyscope.claims.reading import linear_layers
from bathyscope.core.json_values import JsonObject
from bathyscope.papers.shortcut_length.claims.construction import carrying_network, minimum_distance
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import color, label_axes, legend, panels
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

_EXACT = 1e-9
_BESIDE = 0.15  # how far from the first sample's way the second one stands, before normalization
# seen from (1, 1, 1): the labels e₁, e₂, e₃ lie symmetrically on the near side
_VIEW = np.array([[-1, 1, 0], [-1, -1, 2]]) / np.sqrt([[2], [6]])
_COORDINATES = ["a", "b", "c"]


class PathPreset(Preset):
    """Settings of figure 10.

    Attributes:
        data: three samples in three dimensions, drawn by a seed.
        num_units: R of the network.
    """

    sources: ClassVar = {
        "data": "not printed: three samples in three dimensions, as drawn in the figure",
        "num_units": "not printed: ours",
        "seeds": "not printed: the figure shows one set of samples, here ten",
    }
    data: str = "generated"
    num_units: int


class CarriedPath(Computation):
    """Where three samples are after every unit of a network that carries them to their labels.

    Attributes:
        num_units: R.
        seed: of the samples.
    """

    num_units: int
    seed: int

    def prefix(self) -> str:
        """`path-150-seed0`."""
        return f"path-{self.num_units}-seed{self.seed}"

    def samples(self) -> tuple[Float[Tensor, " 3 3"], Float[Tensor, " 3 3"]]:
        """Unit vectors and their labels; the second stands beside the way of the first."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randn(3, 3, generator=generator, dtype=torch.float64)
        y = torch.eye(3, dtype=torch.float64)
        first = F.normalize(drawn[0], dim=0)
        x = torch.stack([first, first + y[0] + _BESIDE * drawn[1], drawn[2]])
        return F.normalize(x), y

    def rows(self) -> Iterator[dict[str, object]]:
        """One row per unit and sample; unit 0 is the input."""
        x, y = self.samples()
        rho = minimum_distance(torch.cat([x, y]))
        network = carrying_network(x, y, num_units=self.num_units, rho=rho)
        locations = x
        yield from self._row(0, locations, x, y, rho, norm=0.0)
        with torch.no_grad():
            for r, block in enumerate(network.blocks, start=1):
                before, locations = locations, block(locations)
                norm = max(float(layer.weight.norm()) for layer in linear_layers(block))
                yield from self._row(r, locations, before, y, rho, norm=norm)

    def _row(
        self, r: int, locations: Tensor, before: Tensor, y: Tensor, rho: float, *, norm: float
    ) -> Iterator[JsonObject]:
        apart = torch.cdist(locations, locations).fill_diagonal_(torch.inf).min(dim=1).values
        for i, location in enumerate(locations):
            yield {
                "unit": r,
                "sample": i,
                "moved": float((location - before[i]).norm()),
                "apart": float(apart[i]),
                "from_label": float((location - y[i]).norm()),
                "rho": rho,
                "weight_norm": norm,
                **dict(zip(_COORDINATES, location.tolist(), strict=True)),
            }


def tasks(preset: PathPreset) -> list[CarriedPath]:
    """One network a seed."""
    return [CarriedPath(num_units=preset.num_units, seed=seed) for seed in range(preset.seeds)]


def table(store: Store, preset: PathPreset) -> pd.DataFrame:
    """One row per unit and sample."""
    return store.frame(tasks(preset), keys=("num_units", "seed"))


def checks(table: pd.DataFrame, preset: PathPreset) -> tuple[Check, ...]:
    """All arrive, none comes near another, and a unit moves one of them."""
    last = table[table["unit"] == table["unit"].max()]
    movers = (table["moved"] > _EXACT).groupby([table["seed"], table["unit"]]).sum()
    room = (table["apart"] - table["rho"] / 2).min()
    at_edge = table[(table["moved"] > _EXACT) & ((table["apart"] - table["rho"] / 2).abs() < 1e-6)]
    return (
        Check(
            "every sample arrives at its label: largest distance left",
            bool((last["from_label"] <= _EXACT).all()),
            float(last["from_label"].max()),
        ),
        Check(
            "two samples never come nearer than ρ/2: smallest distance less ρ/2",
            bool(room >= -_EXACT),
            float(room),
        ),
        Check(
            "a unit moves one sample at most: largest number moved",
            bool((movers <= 1).all()),
            int(movers.max()),
        ),
        Check(
            "units whose sample goes along the edge of another's neighborhood",
            None,
            f"{len(at_edge)} of {int(movers.sum())}",
        ),
        Check("largest ‖W‖ of a unit", None, float(table["weight_norm"].max())),
    )


def draw(table: pd.DataFrame, preset: PathPreset) -> Figure:
    """The first seed: the sphere seen from (1, 1, 1), and the distance to the nearest other sample."""
    figure, (left, right) = panels(2, width=4.8, height=4.2)
    shown = table[table["seed"] == 0]
    _sphere(left, shown)
    label_axes(right, title="distance to the nearest other", x="unit", y="distance")
    for i, part in shown.groupby("sample"):
        moving = part[(part["moved"] > _EXACT)]
        right.plot(
            moving["unit"], moving["apart"], color=color(int(i)), lw=1.6, label=f"sample {i + 1}"
        )
    right.axhline(float(shown["rho"].iloc[0]) / 2, color="0.4", lw=1, ls=":", label="ρ/2")
    right.set_ylim(bottom=0)
    legend(right)
    return figure


def _sphere(ax: Axes, shown: pd.DataFrame) -> None:
    label_axes(ax, title=f"three samples through {shown['unit'].max()} units", x="", y="")
    ax.set_aspect("equal")
    ax.axis("off")
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color="0.75", lw=1)
    radius = float(shown["rho"].iloc[0]) / 2
    for i, part in shown.groupby("sample"):
        path = part[_COORDINATES].to_numpy(dtype=float)
        flat, near = path @ _VIEW.T, path.sum(axis=1) >= 0
        for side, style in ((near, "-"), (~near, ":")):
            line = np.where(side[:, None], flat, np.nan)
            ax.plot(line[:, 0], line[:, 1], style, color=color(int(i)), lw=1.8)
        for location, marker, text in ((path[0], "o", f"x{i + 1}"), (path[-1], "s", f"e{i + 1}")):
            x, y = _VIEW @ location
            ax.plot([x], [y], marker, color=color(int(i)), ms=7)
            ax.annotate(text, (x, y), xytext=(6, 5), textcoords="offset points", size=9)
            _cap(ax, location, radius, color(int(i)))


def _cap(ax: Axes, location: np.ndarray, radius: float, tint: str) -> None:
    """The points of the sphere at a distance from a place."""
    angle = 2 * np.arcsin(radius / 2)
    aside = np.linalg.svd(location[None])[2][1:]
    turn = np.linspace(0, 2 * np.pi, 100)[:, None]
    ring = np.cos(angle) * location + np.sin(angle) * (
        np.cos(turn) * aside[0] + np.sin(turn) * aside[1]
    )
    flat = ring @ _VIEW.T
    ax.plot(flat[:, 0], flat[:, 1], color=tint, lw=0.8, alpha=0.6)


STUDY = Study(
    name="shortcut_length.figure_10",
    title="The path of a sample through the network of theorem 1",
    shows=(
        "A sample is carried to its label along the sphere in short steps, one unit per step, and led "
        "around the other samples so that no two come nearer than ρ/2."
    ),
    presets={
        "quick": PathPreset(num_units=150),
        "full": PathPreset(num_units=600, seeds=5),
        "printed": PathPreset(num_units=3000, seeds=10),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "every sample": "lemma 2: the inputs are carried to the labels",
        "two samples": "lemma 2: a distance of ρ/2 is kept on the way",
        "a unit moves": "lemma 1: a unit moves one vector and leaves the others",
    },
    draw=draw,
    notes=(
        "The paper's figure is a sketch. Here the network is built and three samples in three "
        "dimensions are sent through it, so that the sphere can be drawn; the second sample is put "
        "beside the way of the first. Circles are the points at distance ρ/2; dotted parts lie on the "
        "far side.",
    ),
)
