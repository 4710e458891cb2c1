"""Figure 11: the pattern of the Hessian's blocks at zero weights."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bathyscope import nets
from bathyscope.curvature import hessian
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import panels
from bathyscope.studies.examples import second_moments
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.studies.trial import half_squared_error

_ROUNDING = 1e-10


class PatternPreset(Preset):
    """Settings of figure 11.

    Attributes:
        lengths: n, of the shortcuts.
        num_units: R.
        components: principal components that are kept, and the width.
    """

    sources: ClassVar = {
        "data": "printed: appendix B, whitened MNIST",
        "lengths": "printed: one, two and three; four is ours",
        "num_units": "not printed: ours",
        "components": "printed: appendix B, ten",
        "seeds": "none: at zero nothing is drawn",
    }
    lengths: tuple[int, ...] = (1, 2, 3)
    num_units: int = 4
    components: int = 10


class ZeroPattern(Computation):
    """The blocks of the Hessian of one network at zero, one for each pair of weight matrices.

    Attributes:
        length: n.
        num_units: R.
        data: whose second moments enter.
        components: the width.
    """

    length: int
    num_units: int
    data: str
    components: int

    def prefix(self) -> str:
        """`pattern-4-2-mnist`."""
        return f"pattern-{self.num_units}-{self.length}-{self.data}"

    def rows(self) -> Iterator[dict[str, object]]:
        """One row a pair of weight matrices, by double backpropagation through the network.

        `from_first` is the largest difference from the block of the same two layers in the first
        units that stand in the same order, `from_transpose` that from the transposed block.
        """
        pair = second_moments(self.data, self.components, None)
        model = nets.build(f"nshortcut-{self.num_units}-{self.length}", width=self.components)
        model.double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        whole = hessian(model, pair, loss=half_squared_error).dense()
        layers, size = self.num_units * self.length, self.components**2
        blocks = whole.reshape(layers, size, layers, size).transpose(1, 2)
        for i, j in np.ndindex(layers, layers):
            (r, k), (s, m) = divmod(i, self.length), divmod(j, self.length)
            first = blocks[(r > s) * self.length + k, (s > r) * self.length + m]
            yield {
                "row": i,
                "column": j,
                "unit": r,
                "other_unit": s,
                "layer": k,
                "other_layer": m,
                "largest": float(blocks[i, j].abs().max()),
                "from_first": float((blocks[i, j] - first).abs().max()),
                "from_transpose": float((blocks[i, j] - blocks[j, i].T).abs().max()),
            }


def tasks(preset: PatternPreset) -> list[ZeroPattern]:
    """One Hessian a length of the shortcuts."""
    return [preset.task(ZeroPattern, length=length) for length in preset.lengths]


def table(store: Store, preset: PatternPreset) -> pd.DataFrame:
    """One row a length and pair of weight matrices."""
    return store.frame(tasks(preset), keys=("length",))


def checks(table: pd.DataFrame, preset: PatternPreset) -> tuple[Check, ...]:
    """Of length two only the two blocks within a unit, all alike; of length three nothing."""
    two = table[table["length"] == 2]
    coupled = (two["unit"] == two["other_unit"]) & (two["layer"] != two["other_layer"])
    elsewhere, minimum = float(two[~coupled]["largest"].max()), float(two[coupled]["largest"].min())
    result = [
        Check(
            "n = 2: blocks other than those of the two layers of one unit are zero; largest entry, "
            "and that of the smallest of the others",
            elsewhere <= _ROUNDING < minimum,
            f"{elsewhere:.2g}, {minimum:.3g}",
        ),
        Check(
            "n = 2: the blocks are the same in all units; largest difference",
            float(two["from_first"].max()) <= _ROUNDING,
            float(two["from_first"].max()),
        ),
        Check(
            "n = 2: those above and below the diagonal are transposes; largest difference",
            float(two["from_transpose"].max()) <= _ROUNDING,
            float(two["from_transpose"].max()),
        ),
    ]
    for length in sorted(set(table["length"]) - {2}):
        sizes = table[table["length"] == length]["largest"]
        zero = float(sizes.max()) <= _ROUNDING
        full = float(sizes.min()) > _ROUNDING
        statement = (
            "no block is zero; the smallest" if length == 1 else "all blocks are zero; the largest"
        )
        result.append(
            Check(
                f"n = {length}: {statement}",
                full if length == 1 else zero,
                float(sizes.min() if length == 1 else sizes.max()),
            )
        )
    return tuple(result)


def draw(table: pd.DataFrame, preset: PatternPreset) -> Figure:
    """The largest entry of every block, one panel a length."""
    figure, axes = panels(len(preset.lengths), width=3.6, height=4.1)
    top = float(table["largest"].max())
    for ax, length in zip(axes, preset.lengths, strict=True):
        part = table[table["length"] == length].pivot(
            index="row", columns="column", values="largest"
        )
        _pattern(ax, part.to_numpy(), length, top)
    return figure


def _pattern(ax: Axes, sizes: np.ndarray, length: int, top: float) -> None:
    ax.set_title(f"shortcuts of length {length}", size=10, loc="left")
    ax.grid(visible=False)
    ax.imshow(sizes, cmap="Blues", vmin=0, vmax=1.4 * top)
    for (i, j), value in np.ndenumerate(sizes):
        shown = f"{value:.2g}" if value > _ROUNDING else "0"
        ax.text(
            j, i, shown, ha="center", va="center", size=6, color="0.15" if shown != "0" else "0.7"
        )
    for edge in range(0, len(sizes) + 1, length):
        ax.axhline(edge - 0.5, color="0.5", lw=0.8)
        ax.axvline(edge - 0.5, color="0.5", lw=0.8)
    names = [f"{i // length + 1},{i % length + 1}" for i in range(len(sizes))]
    ax.set_xticks(range(len(sizes)), names, size=6, rotation=90)
    ax.set_yticks(range(len(sizes)), names, size=6)
    ax.set(xlabel="unit, layer", ylabel="unit, layer")


STUDY = Study(
    name="shortcut_length.figure_11",
    title="The pattern of the Hessian's blocks at zero weights",
    shows=(
        "With shortcuts of length two, only the blocks of the two weight matrices of one unit are not "
        "zero; they are the same in every unit, and transposes of each other."
    ),
    presets={
        "quick": PatternPreset(),
        "full": PatternPreset(data="mnist", num_units=6),
        "printed": PatternPreset(data="mnist", num_units=8, lengths=(1, 2, 3, 4)),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "n = 2": "theorem 2 and figure 11: for n = 2 only the blocks between the two layers of a unit are "
        "nonzero, alike in all units, each the transpose of its mirror",
        "n = 1": "theorem 2: for n = 1 the Hessian is block Toeplitz with full blocks",
        "n = 3": "theorem 2: for n ≥ 3 the Hessian is zero",
        "n = 4": "theorem 2: for n ≥ 3 the Hessian is zero",
    },
    draw=draw,
    notes=(
        "The paper's figure is a sketch for length two. Here the Hessian of linear networks on whitened "
        "data is computed by double backpropagation at zero weights; a cell is the largest entry of a "
        "block, and lines part the units. Lengths one and three are shown beside it.",
    ),
)
