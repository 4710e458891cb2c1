import dataclasses
import math

import pytest

from bathyscope.core.records import Measurement, Severity
from bathyscope.report.block_table import block_table
from bathyscope.report.series import series_of
from bathyscope.report.strips import block_axis, draw, strip_groups, strips_of
from bathyscope.report.verdicts import changes, facts, finding_views
from bathyscope.report.words import notes, provenance, word_entries
from tests.report.specimens import clean, exploding, staged, treated


def with_columns(report, **columns):
    made = Measurement(name="gradients", blocks=report.blocks, columns=columns)
    return dataclasses.replace(report, measurements=(made,))


def test_runs_of_one_class_are_one_path():
    drawing = draw(["a", "a", "b", "", "a"])
    assert dict(drawing.paths) == {"a": "M0 0h2v1h-2zM4 0h1v1h-1z", "b": "M2 0h1v1h-1z"}
    assert drawing.width == 5
    assert draw([]).width == 1


def test_states_of_a_network_share_one_scale_and_point_at_their_own_blocks():
    small, large = clean(3), clean(3)
    states = [
        ("a", series_of(with_columns(small, mine=(1.0, 1.0, 1.0)))),
        ("b", series_of(with_columns(large, mine=(1.0, 1.0, 5.0)))),
    ]
    first, second = strips_of("gradients.mine", states)
    assert [path for path, _ in first.drawing.paths] == ["c0"]
    assert [path for path, _ in second.drawing.paths] == ["c0", "c8"]
    assert (first.blocks_id, second.blocks_id) == ("blocks-0", "blocks-1")
    assert second.told == "1|1|5"
    assert second.spoken == "gradients mine b: 1 – 5 over 3 blocks"
    assert not second.has_gaps
    assert not second.has_words
    gap = strips_of("gradients.mine", [("", series_of(with_columns(small, mine=(1.0, None, 2.0))))])
    assert gap[0].has_gaps


def test_main_strips_stand_apart_from_details_and_settings_have_none():
    (group,) = [g for g in strip_groups(clean(6)) if g.title == "representations"]
    assert [strips[0].key for strips in group.main] == [
        "representations.condition_samples",
        "representations.mean_cosine",
    ]
    assert [strips[0].key for strips in group.detail] == ["representations.rank_samples"]


def test_the_axis_names_its_ends_and_ticks_where_the_dimension_changes():
    report = clean(6)
    axis = block_axis(report)
    assert (axis.first, axis.last) == ("0", "5")
    assert dict(axis.drawing.paths) == {"tick": "M2 0h1v1h-1zM4 0h1v1h-1z"}
    stem = dataclasses.replace(report.blocks[0], index=-1, part="stem")
    around = dataclasses.replace(report, blocks=(stem, *report.blocks))
    assert (block_axis(around).first, block_axis(around).told) == ("stem", "stem, 6 blocks")
    assert block_axis(dataclasses.replace(report, blocks=())).first == "0"


def test_rows_tell_findings_gravest_first_and_are_sorted_by_them():
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
        # one over the measured ratio is shown: the growth on the way to the input
        ("ratio", 1.0, "n"),  # at its target: no shade
        ("ratio", 0.01, "n w8"),
        ("ratio", 100.0, "n b8"),
        ("ratio", math.inf, "n b8"),
        ("ratio", 0.0, "n nf"),
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


def test_facts_count_by_severity():
    told = facts(exploding(12))
    assert told.endswith("2 problems, 1 warning, 1 note")
    assert told.startswith("12 blocks with ")
    sizeless = tuple(dataclasses.replace(b, num_parameters=0) for b in clean(2).blocks)
    assert facts(dataclasses.replace(clean(2), blocks=sizeless)) == "2 blocks · no findings"


def test_a_finding_is_drawn_where_its_blocks_are():
    view = finding_views(exploding(12))[0]
    assert dict(view.drawing.paths) == {"here": "M0 0h6v1h-6z"}
    assert ("ratio median", "8.91") in view.evidence


def test_what_became_of_each_kind_of_finding():
    worse = exploding(12)
    first, second, third, fourth = worse.findings
    before = dataclasses.replace(
        worse,
        findings=(
            dataclasses.replace(first, severity=Severity.NOTE),  # graver since
            dataclasses.replace(second, severity=Severity.PROBLEM),  # as it was
            dataclasses.replace(fourth, severity=Severity.PROBLEM),  # milder since
            dataclasses.replace(first, code="other"),  # gone
        ),
    )
    told = {c.code: c.what for c in changes(dataclasses.replace(worse, before=before))}
    assert told == {
        first.code: "graver",
        second.code: "still there",
        fourth.code: "milder",
        "other": "gone",
        third.code: "new",
    }
    assert changes(worse) == []
    assert {c.what for c in changes(treated(12))} == {"gone"}


def test_the_gravest_finding_of_a_kind_is_compared():
    first = exploding(12).findings[0]
    mild = dataclasses.replace(first, severity=Severity.NOTE)
    for order in ((first, mild), (mild, first)):
        now = dataclasses.replace(exploding(12), findings=order)
        (change,) = changes(
            dataclasses.replace(now, before=dataclasses.replace(now, findings=(first,)))
        )
        assert change.what == "still there"


def test_words_stand_once_for_all_modes():
    keys = ["representations.condition_samples", "representations.condition_features", "mine.x"]
    (entry,) = word_entries(keys)
    assert entry.quantities == keys[:2]
    assert entry.label == "condition"
    assert "Good: Below about 1e3." in entry.text


def test_provenance_tells_settings_and_notes_tell_whose_they_are():
    report = clean(2)
    told = dict(provenance(report))
    assert told["seed"] == "0"
    assert told["gradients"] == "cutoff 1e-7"
    made = Measurement(
        name="m",
        blocks=(),
        columns={},
        settings={"modes": ("a", None, True), "dtype": complex},
        notes=("careful",),
    )
    other = dataclasses.replace(report, measurements=(made,), notes=("first",))
    assert dict(provenance(other))["m"] == "modes a, –, yes, dtype <class 'complex'>"
    assert notes(other) == ["first", "m: careful"]
    bare = dataclasses.replace(made, settings={})
    assert "m" not in dict(provenance(dataclasses.replace(report, measurements=(bare,))))


def test_stages_have_strips_of_every_moment():
    groups = strip_groups(staged(6))
    assert {len(strips) for group in groups for strips in group.main} == {2}
    assert [strip.when for strip in groups[0].detail[0]] == ["at the start", "after 8 steps"]
