import dataclasses
import itertools
import math

import pytest

from bathyscope.core.records import Measurement
from bathyscope.report.panels import Line, Panel, calm_range, curve_panels, depth_panels
from bathyscope.report.plots import figure, plot
from tests.report.specimens import clean, exploding


def panel(*ys, log=False, x=None, marks=()):
    lines = [
        Line(name=f"line {at}", colour=at, x=x or [float(i) for i in range(len(y))], y=y)
        for at, y in enumerate(ys)
    ]
    return Panel(title="t", log=log, lines=lines, marks=marks)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([], None),
        ([0.0, 0.0], (0.0, 1.0)),
        ([1.0, 2.0], None),  # a difference of half of the size is large
        ([1.01, 2.0], (0.0, 2.2)),
        ([-2.0, -1.01], (-2.2, 0.0)),
        ([-1.0, 1.0], None),
        ([5.0], (0.0, 5.5)),
    ],
)
def test_small_differences_are_shown_from_zero_on(values, ends):
    assert calm_range(values) == ends


def one_column(report, key, values):
    name, _, column = key.partition(".")
    measured = Measurement(name=name, blocks=report.blocks, columns={column: values})
    return dataclasses.replace(report, measurements=(measured,))


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ((1.0, 2.0, 10.0), True),
        ((1.0, 2.0, 9.9), False),  # less than a decade
        ((0.0, 2.0, 20.0), True),  # zero is a gap on a logarithmic axis
        ((0.0, -1.0, -20.0), False),
    ],
)
def test_a_decade_is_worth_a_logarithmic_axis(values, log):
    report = one_column(clean(3), "gradients.ratio_from_loss", values)
    (found,) = depth_panels([("", report)])
    # the page tells the factor from the loss, which is one over what was measured
    assert found.log is log
    assert found.lines[0].y == tuple(1 / v if v else math.inf for v in values)


def test_the_panels_of_several_networks():
    one, other = clean(6), exploding(9)
    panels = depth_panels([("one", one), ("other", other)])
    assert [line.name for line in panels[0].lines] == ["one", "other"]
    assert [line.colour for line in panels[0].lines] == [0, 1]
    assert [len(line.x) for line in panels[0].lines] == [6, 9]
    assert panels[0].lines[1].text[0] == other.blocks[0].label
    assert not panels[0].marks  # their transitions stand at different blocks
    assert depth_panels([("one", one), ("again", one)])[0].marks
    only = one_column(clean(6), "mine.x", (1.0,) * 6)
    (mine,) = depth_panels([("without", dataclasses.replace(one, measurements=())), ("with", only)])
    assert [(line.name, line.colour) for line in mine.lines] == [("with", 1)]


@pytest.mark.parametrize(("count", "shown"), [(12, 12), (13, 0)])
def test_more_than_twelve_transitions_would_hide_the_curves(count, shown):
    report = clean(20)
    blocks = tuple(
        dataclasses.replace(block, changes_dimension=block.index < count) for block in report.blocks
    )
    panels = depth_panels([("", dataclasses.replace(report, blocks=blocks))])
    assert len(panels[0].marks) == shown
    assert list(panels[0].marks) == [float(i) for i in range(shown)]


def test_a_curve_that_one_network_lacks_is_drawn_for_the_others():
    one = dataclasses.replace(clean(3), curves={"loss": ((0, 1), (5, None))})
    other = dataclasses.replace(clean(3), curves={"loss": ((0, 2.0),), "accuracy": ((0, 0.5),)})
    loss, accuracy = curve_panels([("one", one), ("other", other)])
    assert (loss.title, accuracy.title) == ("loss", "accuracy")
    assert (loss.lines[0].x, loss.lines[0].y) == ([0.0, 5.0], [1.0, None])
    assert [(line.name, line.colour) for line in accuracy.lines] == [("other", 1)]


def test_panels_stand_under_each_other_with_gaps():
    drawn = figure([panel([1.0, 9.0])] * 4, x_title="block")["layout"]
    domains = [drawn[f"yaxis{n}"]["domain"] for n in ("", "2", "3", "4")]
    assert domains[0] == [pytest.approx(0.83), 1]
    assert domains[3] == [0, pytest.approx(0.25)]  # the last reaches the bottom
    for (low, _), (_, high) in itertools.pairwise(domains):
        assert low - high == pytest.approx(0.08)
    assert drawn["xaxis"]["anchor"] == "y4"
    assert drawn["hovermode"] == "closest"
    alone = figure([panel([1.0, 9.0])], x_title="block")["layout"]
    assert (alone["xaxis"]["anchor"], alone["hovermode"]) == ("y", "x unified")


def test_a_legend_only_where_there_are_several_lines_and_each_once():
    one = figure([panel([1.0]), panel([1.0])], x_title="step")
    assert not one["layout"]["showlegend"]
    assert one["layout"]["margin"]["t"] == 24
    two = figure([panel([1.0], [2.0]), panel([1.0], [2.0])], x_title="step")
    assert two["layout"]["showlegend"]
    assert two["layout"]["margin"]["t"] == 52
    assert [trace["showlegend"] for trace in two["data"]] == [True, True, False, False]


def test_what_is_not_finite_is_a_band_and_a_gap():
    broken = [1.0, math.inf, math.nan, 2.0, None, math.inf]
    drawn = figure([panel(broken)], x_title="block")
    assert drawn["data"][0]["y"] == [1.0, None, None, 2.0, None, None]
    assert [(s["x0"], s["x1"]) for s in drawn["layout"]["shapes"]] == [(0.5, 2.5), (4.5, 5.5)]


def test_zero_is_a_gap_on_a_logarithmic_axis_only():
    values = [0.0, -1.0, 1.0]
    assert figure([panel(values)], x_title="")["data"][0]["y"] == values
    assert figure([panel(values, log=True)], x_title="")["data"][0]["y"] == [None, None, 1.0]


@pytest.mark.parametrize(
    ("most", "axis"),
    [(100.0, {"nticks": 4}), (101.0, {"dtick": 1}), (1e4, {"dtick": 1}), (1.1e4, {"dtick": 2})],
)
def test_whole_decades_are_named_where_there_are_several(most, axis):
    drawn = figure([panel([1.0, 0.0, most], log=True)], x_title="")["layout"]["yaxis"]
    assert drawn["type"] == "log"
    assert axis.items() <= drawn.items()
    assert ("dtick" in drawn) is ("dtick" in axis)


def test_the_axis_of_places_has_a_margin():
    def ends(*x):
        y = [1.0] * len(x)
        return figure([panel(y, x=[*x])], x_title="")["layout"]["xaxis"]["range"]

    assert ends(0.0, 10.0) == [-0.5, 10.5]
    assert ends(0.0, 1000.0) == [-10.0, 1010.0]


def test_marks_are_lines_and_points_are_seen_where_they_are_few():
    drawn = figure([panel([1.0, 2.0], marks=(1.0,))], x_title="")
    (mark,) = drawn["layout"]["shapes"]
    assert (mark["type"], mark["x0"], mark["x1"]) == ("line", 1.0, 1.0)
    modes = [figure([panel([1.0] * n)], x_title="")["data"][0]["mode"] for n in (2, 60, 61)]
    assert modes == ["lines+markers", "lines+markers", "lines"]


def test_a_place_is_as_high_as_its_panels():
    assert plot("p", [], x_title="block") is None
    place = plot("p", [panel([1.0]), panel([2.0])], x_title="block")
    assert place.height == 60 + 2 * 150
    assert place.spoken == "Curves by block: t, t"
