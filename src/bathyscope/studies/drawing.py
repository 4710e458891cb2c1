"""How the figures of all studies look."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from bathyscope.report.palette import LIGHT, LINES

# Curves that lie on one another are distinguished by their dashes.
_STYLES: tuple[object, ...] = (
    "-",
    (0, (4, 2)),
    "-",
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5)),
    "-",
    "-",
)
_LEADING = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(1 + i / 10 for i in range(90)))
"""Leading digits of the ticks at a short logarithmic axis, as few as give two ticks."""
_INK, _SOFT, _RULE = LIGHT["ink"], LIGHT["soft"], LIGHT["rule"]


def panels(
    columns: int = 1,
    rows: int = 1,
    *,
    width: float = 4.4,
    height: float = 3.2,
    share_y: bool = False,
    share_x: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure with this many panels, row by row; each panel's size is in inches."""
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained", dpi=110)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y, sharex=share_x)
    axes = list(grid.flat)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(_SOFT)
        ax.tick_params(colors=_SOFT, labelsize=8)
        ax.grid(True, color=_RULE, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.xaxis.label.set(color=_INK, size=9)
        ax.yaxis.label.set(color=_INK, size=9)
    return figure, axes


def label_axes(ax: Axes, *, title: str, x: str, y: str, log: str = "") -> Axes:
    """Title, labels, and a logarithmic scale on the axes named in `log` (`"x"`, `"y"`, `"xy"`)."""
    ax.set_title(title, size=10, color=_INK, loc="left")
    ax.set(xlabel=x, ylabel=y)
    if "x" in log:
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(NullFormatter())
    if "y" in log:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
    return ax


def plain_ticks(figure: Figure) -> None:
    """Numbers at logarithmic axes of two decades or less, where powers of ten would be one or none.

    Ticks that a study set itself stay.
    """
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        its_own = isinstance(axis.get_major_locator(), FixedLocator)
        if its_own or axis.get_scale() != "log" or low <= 0 or high > 100 * low:
            continue
        for leading in _LEADING:
            marks = [m * 10.0**e for e in range(-12, 12) for m in leading]
            shown = [mark for mark in marks if low <= mark <= high]
            if len(shown) > 1:
                axis.set_ticks(shown, labels=[f"{mark:g}" for mark in shown])
                break


def legend_below(figure: Figure, ax: Axes, *, columns: int = 4) -> None:
    """The legend of one panel under the whole figure, where no curve can lie beneath it."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )


def color(index: int) -> str:
    """The color of the n-th curve."""
    return LINES[index % len(LINES)]


def shades(count: int) -> list[tuple[float, float, float, float]]:
    """Colors for an ordered quantity, such as depth, light to dark."""
    import matplotlib as mpl

    ramp = mpl.colormaps["viridis_r"]
    return [ramp(0.15 + 0.75 * i / max(1, count - 1)) for i in range(count)]


def legend(ax: Axes, *, location: Any = "best", title: str | None = None, columns: int = 1) -> None:
    """A quiet legend."""
    shown = ax.legend(frameon=False, fontsize=8, loc=location, title=title, ncols=columns)
    if title is not None:
        shown.get_title().set_fontsize(8)


def mean_lines(
    ax: Axes,
    table: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    order: Sequence[Hashable] | None = None,
    labels: dict[Any, str] | None = None,
    colors: Sequence[object] | None = None,
    marker: str | None = "o",
) -> None:
    """One line per group: the mean over seeds, with a band of one standard deviation.

    Values that are non-finite are left out of the mean; where none is finite the line has a gap.
    """
    groups = list(order) if order is not None else list(dict.fromkeys(table[by]))
    logarithmic = ax.get_yscale() == "log"
    for i, group in enumerate(groups):
        part = table[table[by] == group].assign(
            **{y: lambda t: t[y].astype(float).where(np.isfinite(t[y].astype(float)))}
        )
        if part.empty:
            continue
        shown = np.log10(part[y]) if logarithmic else part[y]
        grouped = shown.groupby(part[x])
        mean, spread = grouped.mean(), grouped.std().fillna(0.0)
        low, high = mean - spread, mean + spread
        if logarithmic:
            mean, low, high = 10**mean, 10**low, 10**high
        tint = colors[i] if colors is not None else color(i)
        name = (labels or {}).get(group, str(group))
        style = _STYLES[i % len(_STYLES)] if colors is None else "-"
        ax.plot(
            mean.index,
            mean,
            color=tint,
            marker=marker,
            markersize=3.5,
            lw=1.5,
            ls=style,
            label=name,
        )
        if (spread > 0).any():
            ax.fill_between(mean.index, low, high, color=tint, alpha=0.16, lw=0)


def text_table(table: pd.DataFrame, *, title: str, width: float = 8.0) -> Figure:
    """A table as a picture, for studies that the paper shows as one."""
    figure = Figure(figsize=(width, 0.62 + 0.29 * (len(table) + 1)), layout="constrained", dpi=110)
    ax = figure.subplots()
    ax.axis("off")
    ax.set_title(title, size=10, color=_INK, loc="left")
    cells = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    drawn = ax.table(cells, colLabels=list(table.columns), loc="center", cellLoc="right")
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9)
    drawn.auto_set_column_width(list(range(len(table.columns))))
    drawn.scale(1, 1.35)
    for (row, column), cell in drawn.get_celld().items():
        cell.set_edgecolor(_RULE)
        cell.visible_edges = "B"
        cell.get_text().set_color(_INK if row else _SOFT)
        if column == 0:
            cell.get_text().set(horizontalalignment="left")
    return figure


def matrix(cells: pd.DataFrame, shade: pd.DataFrame, *, title: str) -> Figure:
    """A table as a picture whose cells are the darker the greater their shade, from 0 to 1."""
    rows, columns = cells.shape
    figure = Figure(figsize=(2.6 + 1.5 * columns, 0.7 + 0.26 * rows), layout="constrained", dpi=110)
    ax = figure.subplots()
    ax.imshow(shade.to_numpy(dtype=float), cmap="Blues", vmin=0, vmax=2.2, aspect="auto")
    for row, column in np.ndindex(rows, columns):
        ax.text(column, row, cells.iat[row, column], ha="center", va="center", size=8, color=_INK)
    ax.set_xticks(range(columns), list(cells.columns))
    ax.set_yticks(range(rows), list(cells.index))
    ax.xaxis.tick_top()
    ax.tick_params(colors=_INK, labelsize=8, length=0)
    ax.spines[:].set_visible(False)
    figure.suptitle(title, size=10, color=_INK, x=0.01, ha="left")
    return figure


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.4g}"
    return "–" if value is None else str(value)


def over_seeds(table: pd.DataFrame, *, by: str, column: str) -> pd.DataFrame:
    """Median, smallest and largest of a column over the seeds, one row for each value of `by`, in its order.

    Infinite values and NaN are left out; `missing` is the fraction of the seeds that have one.
    """
    values = table[column].astype(float)
    groups = table.assign(value=values.where(np.isfinite(values))).groupby(by)["value"]
    return pd.DataFrame(
        {
            "middle": groups.median(),
            "low": groups.min(),
            "high": groups.max(),
            "missing": 1 - groups.count() / groups.size(),
        }
    ).reset_index()
