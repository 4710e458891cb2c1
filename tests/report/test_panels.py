import dataclasses
import math

import pytest

from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Measurement
from bathyscope.report.panels import (
    Panel,
    Trace,
    calm_range,
    columns_of,
    curve_panels,
    decisive_panel,
    depth_panels,
    main_panels,
    panel_named,
)
from bathyscope.report.training_page import TrainingPage, block_panels
from tests.report.specimens import clean, exploding, staged


def panel(*ys, log=False, x=None):
    traces = [
        Trace(name=f"line {at}", color=at, x=x or [float(i) for i in range(len(y))], y=y)
        for at, y in enumerate(ys)
    ]
    return Panel(title="t", log=log, traces=traces)


def one_column(report, key, values):
    name, _, column = key.partition(".")
    measured = Measurement(name=name, blocks=report.blocks, columns={column: values})
    return dataclasses.replace(report, measurements=(measured,))


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
    if ends is not None:
        assert panel(values).limits == ends


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
    (result,) = depth_panels([("", report)])
    assert result.log is log
    assert result.traces[0].y == values  # as tables and JSON hold it


def test_the_panels_of_several_networks():
    one, other = clean(6), exploding(9)
    panels = depth_panels([("one", one), ("other", other)])
    assert [trace.name for trace in panels[0].traces] == ["one", "other"]
    assert [trace.color for trace in panels[0].traces] == [0, 1]
    assert [len(trace.x) for trace in panels[0].traces] == [6, 9]
    assert panels[0].traces[1].names[0] == other.blocks[0].label
    assert not panels[0].marks  # their transitions stand at different blocks
    assert depth_panels([("one", one), ("again", one)])[0].marks
    only = one_column(clean(6), "mine.x", (1.0,) * 6)
    (mine,) = depth_panels([("without", dataclasses.replace(one, measurements=())), ("with", only)])
    assert [(trace.name, trace.color) for trace in mine.traces] == [("with", 1)]


@pytest.mark.parametrize(("count", "shown"), [(12, 12), (13, 0)])
def test_more_than_twelve_transitions_would_hide_the_curves(count, shown):
    report = clean(20)
    blocks = tuple(
        dataclasses.replace(block, changes_dimension=block.index < count) for block in report.blocks
    )
    panels = depth_panels([("", dataclasses.replace(report, blocks=blocks))])
    assert list(panels[0].marks) == [float(i) for i in range(shown)]


def test_a_curve_that_one_network_lacks_is_drawn_for_the_others():
    one = dataclasses.replace(clean(3), curves={"loss": ((0, 1), (5, None))})
    other = dataclasses.replace(clean(3), curves={"loss": ((0, 2.0),), "accuracy": ((0, 0.5),)})
    loss, accuracy = curve_panels([("one", one), ("other", other)])
    assert (loss.title, accuracy.title) == ("loss", "accuracy")
    assert (loss.traces[0].x, loss.traces[0].y) == ([0.0, 5.0], [1.0, None])
    assert [(trace.name, trace.color) for trace in accuracy.traces] == [("other", 1)]


@pytest.mark.parametrize(
    ("values", "log", "ticks"),
    [
        ([1.0, 50.0], True, ["1", "2", "5", "10", "20", "50"]),
        ([1.0, 1e4], True, ["1", "10", "100", "1000", "1e4"]),
        ([1e-25, 1.0], True, ["1e-24", "1e-18", "1e-12", "1e-6", "1"]),
        ([0.0, 1.0], False, ["0", "0.5", "1"]),
        ([0.0, 40.0], False, ["0", "20", "40"]),
    ],
)
def test_whole_decades_or_round_numbers_are_named(values, log, ticks):
    assert [text for _, text in panel(values, log=log).ticks] == ticks


def test_every_value_lies_between_the_limits_and_so_does_a_bound_that_is_crossed():
    report = one_column(clean(3), "updates.largest_ratio", (1e-9, 1e-3, 5e-3))
    (result,) = depth_panels([("", report)])
    low, high = result.limits
    assert result.band == (pytest.approx(1e-3 / 30), pytest.approx(3e-2))
    heights = result.heights()
    for value in (1e-9, 5e-3, result.band[0]):
        assert low < value < high
        assert 0 < heights(value) < 1
    assert result.band[1] > high  # nothing is above it: it would take room from the values
    assert heights(low) == pytest.approx(0)
    assert heights(high) == pytest.approx(1)


def test_blocks_are_named_at_the_axis_and_the_last_is_among_them():
    result = depth_panels([("", clean(54))])[0]
    names = [text for _, text in result.x_ticks]
    assert names[0] == "stage1.0"
    assert names[-1] == "stage3.17"
    assert len(names) == 6
    assert depth_panels([("", clean(1))])[0].x_ticks == [(0.0, "stage1.0")]


def test_the_axis_of_places_has_a_margin():
    assert panel([1.0, 1.0], x=[0.0, 10.0]).x_limits == (-0.5, 10.5)
    assert panel([1.0, 1.0], x=[0.0, 1000.0]).x_limits == (-10.0, 1010.0)


def test_blocks_that_were_not_measured_are_gaps():
    report = clean(6)
    some = Measurement(
        name="weights",
        blocks=report.blocks[::-2],
        columns={"spectral_norm": (5, math.nan, 1.0), "flag": (True, None, False)},
    )
    report = dataclasses.replace(report, measurements=(some,))
    (result,) = depth_panels([("", report)])  # truth values have no panel
    values = result.traces[0].y
    assert values[0] is None
    assert values[1] == 1.0
    assert math.isnan(values[3])
    assert values[5] == 5.0
    assert result.traces[0].num_broken == 1
    assert columns_of(report)["weights.flag"] == (None, False, None, None, None, True)


def test_main_quantities_in_their_order_and_all_where_none_is_known():
    report = clean(6)
    keys = [panel.key for panel in main_panels(depth_panels([("", report)]))]
    assert "gradients.ratio_from_loss" in keys
    assert "representations.tolerance_samples" not in keys
    mine = Measurement(name="mine", blocks=report.blocks, columns={"x": (1.0,) * 6})
    alone = depth_panels([("", dataclasses.replace(report, measurements=(mine,)))])
    assert [panel.key for panel in main_panels(alone)] == ["mine.x"]


def test_the_decisive_panel_is_the_named_one_or_the_worst():
    panels = depth_panels([("", exploding(20))])
    assert decisive_panel(panels).key == "gradients.ratio_from_loss"
    assert decisive_panel(panels, "activations.dead_units").key == "activations.dead_units"
    assert decisive_panel(panels, "gone.away").key == "gradients.ratio_from_loss"
    assert decisive_panel([]) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gradients.ratio", "gradients.ratio"),
        ("dead_units", "activations.dead_units"),
        ("gradient norm ratio", "gradients.ratio"),
        ("gradient_ratio", "gradients.ratio"),
        ("cumulative", "gradients.ratio_from_loss"),
        ("", "gradients.ratio_from_loss"),
    ],
)
def test_a_panel_is_named_by_key_label_or_words(name, key):
    assert panel_named(staged(20), name).key == key


def test_a_panel_that_is_not_there_is_refused():
    assert panel_named(exploding(9), "training loss").title == "training loss"
    with pytest.raises(UnknownName, match="no_such"):
        panel_named(clean(3), "no_such")
    with pytest.raises(UsageError, match="nothing was measured"):
        panel_named(dataclasses.replace(clean(3), measurements=(), curves={}))


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ([1.0, 2.0, 9.0], False),
        ([1.0, 2.0, 11.0], True),
        ([0.0, 2.0, 30.0], False),
        ([0.0, 1.0, 2e5, None], True),  # a gradient that stopped hides no decades
        ([-1.0, 1.0, 2e5], False),
        ([0.0, 0.0], False),
    ],
)
def test_a_curve_over_decades_is_logarithmic(values, is_log):
    curves = {"gradient": {"a": ([float(i) for i in range(len(values))], values)}}
    page = TrainingPage(title="", num_steps=3, events=[], curves={}, block_curves=curves)
    assert [panel.log for panel in block_panels(page)] == [is_log]
