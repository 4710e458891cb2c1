import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from bathyscope.report.palette import LINES
from bathyscope.studies.drawing import (
    color,
    label_axes,
    matrix,
    mean_lines,
    over_seeds,
    panels,
    plain_ticks,
    shades,
    text_table,
)


def table(rows):
    return pd.DataFrame(rows, columns=["group", "x", "y"])


def drawn(rows, *, log=False, **options):
    _, (ax,) = panels()
    label_axes(ax, title="t", x="x", y="y", log="y" * log)
    mean_lines(ax, table(rows), x="x", y="y", by="group", **options)
    return ax


def test_a_line_is_the_mean_over_seeds_with_a_band_of_one_deviation():
    ax = drawn([("a", 0, 1.0), ("a", 0, 3.0), ("a", 1, 5.0), ("a", 1, 5.0)])
    (line,) = ax.lines
    assert line.get_ydata().tolist() == [2.0, 5.0]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    at_zero = corners[np.isclose(corners[:, 0], 0), 1]
    assert at_zero.min() == pytest.approx(2 - math.sqrt(2))
    assert at_zero.max() == pytest.approx(2 + math.sqrt(2))


def test_on_a_logarithmic_axis_the_mean_is_geometric():
    assert drawn([("a", 0, 1.0), ("a", 0, 100.0)], log=True).lines[0].get_ydata()[0] == 10
    assert drawn([("a", 0, 1.0), ("a", 0, 100.0)]).lines[0].get_ydata()[0] == 50.5


def test_what_is_non_finite_is_left_out_and_one_seed_has_no_band():
    ax = drawn([("a", 0, 1.0), ("a", 0, math.inf), ("a", 1, math.nan), ("a", 2, 4.0)])
    values = ax.lines[0].get_ydata()
    assert values[0] == 1.0
    assert math.isnan(values[1])
    assert values[2] == 4.0
    assert not ax.collections


def test_groups_keep_their_order_names_and_colors():
    rows = [("b", 0, 1.0), ("a", 0, 2.0)]
    assert [line.get_label() for line in drawn(rows).lines] == ["b", "a"]
    ax = drawn(rows, order=["a", "c", "b"], labels={"a": "first"})
    assert [line.get_label() for line in ax.lines] == ["first", "b"]
    assert [to_hex(line.get_color()) for line in ax.lines] == [LINES[0], LINES[2]]
    assert {line.get_linestyle() for line in drawn(rows, colors=["r", "b"]).lines} == {"-"}
    assert (
        drawn(rows).lines[1].get_linestyle() == "--"
    )  # distinguished from the first by its dashes


def test_colors_begin_anew_and_shades_run_from_light_to_dark():
    assert color(len(LINES)) == color(0) != color(1)
    brightness = [sum(shade[:3]) for shade in shades(4)]
    assert brightness == sorted(brightness, reverse=True)
    assert len(set(shades(4))) == 4
    assert len(shades(1)) == 1


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1.0, 100.0, ["1", "2", "5", "10", "20", "50", "100"]),  # two decades are few
        (0.3, 2.5, ["0.5", "1", "2"]),
        (2.1, 4.9, ["3", "4"]),
        (2.15, 2.45, ["2.2", "2.3", "2.4"]),
        (1.0, 101.0, None),
        (0.0, 1.0, None),
    ],
)
def test_ticks_are_plain_where_few_decades_are_seen(low, high, labels):
    figure, (ax,) = panels()
    if low > 0:
        ax.set_yscale("log")
    ax.set_ylim(low, high)
    before = [label.get_text() for label in ax.get_yticklabels()]
    plain_ticks(figure)
    assert [label.get_text() for label in ax.get_yticklabels()] == (labels or before)


def test_ticks_that_were_set_stay():
    figure, (ax,) = panels()
    ax.set_xscale("log")
    ax.set_xlim(8, 40)
    ax.set_xticks([8, 20, 38], ["8", "20", "38"])
    plain_ticks(figure)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["8", "20", "38"]


def test_axes_are_logarithmic_where_named():
    for log in ("", "x", "y", "xy"):
        _, (ax,) = panels()
        label_axes(ax, title="t", x="a", y="b", log=log)
        assert (ax.get_xscale() == "log") is ("x" in log)
        assert (ax.get_yscale() == "log") is ("y" in log)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")


def test_a_figure_is_as_large_as_its_panels():
    figure, axes = panels(3, 2, width=2.0, height=1.5)
    assert figure.get_size_inches().tolist() == [6.0, 3.0]
    assert len(axes) == 6


def test_a_table_tells_four_digits_and_what_is_missing():
    made = pd.DataFrame({"name": ["a", "b"], "value": [0.123456, math.nan], "n": [3, 4]})
    figure = text_table(made, title="t")
    (drawn,) = figure.axes[0].tables
    cells = {location: cell.get_text().get_text() for location, cell in drawn.get_celld().items()}
    assert [cells[0, c] for c in range(3)] == ["name", "value", "n"]
    assert [cells[r, 1] for r in (1, 2)] == ["0.1235", "–"]
    assert cells[2, 2] == "4"


def test_a_matrix_is_darker_where_its_shade_is_greater():
    cells = pd.DataFrame([["a", "b"]], index=["row"], columns=["x", "y"])
    figure = matrix(cells, pd.DataFrame([[0.0, 1.0]]), title="t")
    ax = figure.axes[0]
    (image,) = ax.images
    rgba = image.to_rgba(image.get_array())
    assert rgba[0, 0, :3].sum() > rgba[0, 1, :3].sum()
    assert [text.get_text() for text in ax.texts] == ["a", "b"]


def test_over_seeds_has_the_median_the_range_and_what_is_missing():
    table = pd.DataFrame(
        {"index": [1, 0, 0, 0, 1, 1], "value": [4.0, 1.0, 5.0, 2.0, math.inf, math.nan]}
    )
    result = over_seeds(table, by="index", column="value")
    assert result["index"].to_list() == [0, 1]
    assert result[["low", "middle", "high"]].to_numpy().tolist() == [[1, 2, 5], [4, 4, 4]]
    assert result["missing"].to_list() == pytest.approx([0, 2 / 3])
