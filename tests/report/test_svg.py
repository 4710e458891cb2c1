import dataclasses
import math

import pytest

from bathyscope.core.records import Measurement, Severity
from bathyscope.report.block_table import block_table
from bathyscope.report.glossary import glossary, notes, provenance, recorded_settings
from bathyscope.report.page import step_places, strip_groups
from bathyscope.report.panels import Panel, Trace, curve_panels, depth_panels
from bathyscope.report.svg import drawn_panel, strip
from tests.report.specimens import clean, exploding, staged


def with_columns(report, **columns):
    made = Measurement(name="gradients", blocks=report.blocks, columns=columns)
    return dataclasses.replace(report, measurements=(made,))


def panel(*ys, log=False, x=None, marks=()):
    traces = [
        Trace(name=f"line {at}", color=at, x=x or [float(i) for i in range(len(y))], y=y)
        for at, y in enumerate(ys)
    ]
    return Panel(title="t", log=log, traces=traces, marks=marks)


def test_runs_of_one_class_are_one_path():
    drawing = strip(["a", "a", "b", "", "a"])
    assert dict(drawing.paths) == {"a": "M0 0h2v1h-2zM4 0h1v1h-1z", "b": "M2 0h1v1h-1z"}
    assert drawing.width == 5
    assert strip([]).width == 1


def test_states_of_a_network_have_one_scale_and_point_at_their_own_blocks():
    states = [
        ("a", with_columns(clean(3), mine=(1.0, 1.0, 1.0))),
        ("b", with_columns(clean(3), mine=(1.0, 1.0, 5.0))),
    ]
    (drawn,) = [drawn_panel(one) for one in depth_panels(states)]
    first, second = drawn.traces
    assert [path for path, _ in first.strip.paths] == ["c0"]
    assert [path for path, _ in second.strip.paths] == ["c0", "c8"]
    assert (first.locations, second.locations) == ("blocks-0", "blocks-1")
    assert second.result == "1|1|5"
    assert second.spoken == "gradients mine b: 1 – 5 over 3 blocks"
    assert not second.has_gaps
    assert not drawn.what
    gap = depth_panels([("", with_columns(clean(3), mine=(1.0, None, 2.0)))])
    assert drawn_panel(gap[0]).traces[0].has_gaps


def test_main_strips_stand_apart_from_details_and_settings_have_none():
    panels = depth_panels([("", clean(6))])
    (group,) = [g for g in strip_groups(panels) if g.title == "representations"]
    assert [one.key for one in group.main] == [
        "representations.condition_samples",
        "representations.mean_cosine",
    ]
    assert [one.key for one in group.detail] == ["representations.rank_samples"]


def test_what_is_non_finite_is_a_band_and_a_gap():
    drawn = drawn_panel(panel([1.0, math.inf, math.nan, 2.0, None, math.inf]))
    assert drawn.broken == [(0.5, 2.0), (4.5, 1.0)]
    assert drawn.traces[0].path.count("M") == 2
    assert drawn.traces[0].result == "1|∞|NaN|2|–|∞"


def test_zero_is_a_gap_on_a_logarithmic_axis_only():
    values = [0.0, -1.0, 1.0]
    assert drawn_panel(panel(values)).traces[0].dots.count("M") == 3
    assert drawn_panel(panel(values, log=True)).traces[0].dots.count("M") == 1


def test_points_are_seen_where_they_are_few():
    dots = [bool(drawn_panel(panel([1.0, 9.0] * n)).traces[0].dots) for n in (1, 30, 31)]
    assert dots == [True, True, False]


def test_heights_run_from_the_top_and_stay_inside():
    drawn = drawn_panel(panel([1.0, 1e6], log=True))
    first, second = (float(y) for y in drawn.traces[0].path[1:].split()[1::2])
    assert 0 < second < first < 100
    assert [text for _, text in drawn.y_ticks] == ["1", "100", "1e4", "1e6"]


def test_the_good_range_is_shaded_and_a_bound_that_is_crossed_is_named():
    bad = depth_panels([("", with_columns(clean(3), ratio=(1.0, 1.0, 20.0)))])
    drawn = drawn_panel(bad[0])
    ((at, text),) = drawn.thresholds
    assert text == "below 1.5"
    assert drawn.band == (at, pytest.approx(100 - at))
    good = depth_panels([("", with_columns(clean(3), ratio=(1.0, 1.1, 0.9)))])
    assert [text for _, text in drawn_panel(good[0]).thresholds] == ["above 0.667"]
    assert drawn_panel(good[0]).band[0] == 0.0


def test_steps_are_listed_by_the_color_of_their_trace():
    report = dataclasses.replace(clean(3), curves={"loss": ((0, 1.0), (5, 2.0))})
    other = dataclasses.replace(clean(3), curves={"loss": ((0, 1.0),)})
    assert step_places(curve_panels([("a", report), ("b", other)])) == [
        [(0.0, ""), (5.0, "")],
        [(0.0, "")],
    ]
    assert step_places([]) == []


def test_rows_show_findings_most_severe_first_and_are_sorted_by_them():
    report = exploding(12)
    table = block_table(report)
    first = table.rows[0]
    assert [severity for severity, _ in first.findings] == [Severity.PROBLEM, Severity.NOTE]
    assert first.badness == "101.0"  # 10² for the problem, 10⁰ for the note
    quiet = next(row for row in table.rows if not row.findings)
    assert quiet.badness == ""
    assert first.shape == "16 × 32 × 32"
    assert (first.size, first.size_text) == (2304, "2,304")
    assert block_table(dataclasses.replace(report, blocks=())) is None


@pytest.mark.parametrize(
    ("column", "value", "style"),
    [
        ("ratio", 1.0, "n"),  # at its target: no shade
        ("ratio", 0.01, "n b8"),
        ("ratio", 100.0, "n w8"),
        ("ratio", math.inf, "n nf"),
        ("ratio", 0.0, "n b8"),
        ("ratio", True, "n"),
        ("mine", 7.0, "n more"),  # no bad side: no shade, and shown on request
        ("mine", "seven", "more"),
    ],
)
def test_the_shade_of_a_cell(column, value, style):
    report = with_columns(clean(1), **{column: (value,)})
    (cell,) = block_table(report).rows[0].cells
    assert sorted(cell.style.split()) == sorted(style.split())


def test_the_side_that_is_bad_is_a_factor_or_a_difference():
    report = with_columns(clean(1), ratio=(1.0,), mine=(1.0,))
    heads = {head.name: head for head in block_table(report).heads}
    assert heads["gradients.ratio"].bad == "factor"
    assert heads["gradients.ratio"].style == ""
    assert heads["gradients.mine"].bad == "none"
    assert heads["gradients.mine"].style == "more"


def test_an_entry_of_the_glossary_stands_once_for_all_modes():
    keys = ["representations.condition_samples", "representations.condition_features", "mine.x"]
    (entry,) = glossary(keys)
    assert entry.quantities == keys[:2]
    assert entry.label == "condition number"
    assert "Good: Below about 1e3." in entry.text


def test_provenance_tells_settings_and_notes_tell_whose_they_are():
    report = clean(2)
    assert dict(provenance(report))["seed"] == "0"
    assert dict(recorded_settings(report))["gradients"] == "tolerance 1e-7"
    made = Measurement(
        name="m",
        blocks=(),
        columns={},
        settings={"modes": ("a", None, True), "dtype": complex, "held_by": None, "names": ()},
        notes=("careful",),
    )
    again = dataclasses.replace(made, name="n", notes=("careful", "slowly"))
    other = dataclasses.replace(report, measurements=(made, again), notes=("first",))
    assert dict(recorded_settings(other))["m"] == "modes a, –, yes, dtype <class 'complex'>"
    assert notes(other) == ["first", "m, n: careful", "n: slowly"]
    bare = dataclasses.replace(made, settings={})
    assert not recorded_settings(dataclasses.replace(report, measurements=(bare,)))


def test_stages_have_strips_of_every_moment():
    groups = strip_groups(depth_panels(staged(6).moments))
    assert {len(one.traces) for group in groups for one in group.main} == {2}
    assert [t.name for t in groups[0].detail[0].traces] == ["at the start", "after 8 steps"]
