"""Every judged check says what of its paper it decides; what is not met is explained."""

from pathlib import Path

import pytest

from bathyscope.studies import all_studies, read_published

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# the studies of ours decide nothing that a paper prints
STUDIES = [name for name in all_studies() if not name.startswith("beyond.")]
PUBLISHED = read_published(RESULTS)


@pytest.mark.parametrize("name", STUDIES)
def test_a_judged_check_says_what_it_decides(name):
    study = all_studies()[name]
    statements = [
        c["statement"]
        for r in PUBLISHED.get(name, {}).values()
        for c in r["checks"]
        if c["passed"] is not None
    ]
    assert [s for s in statements if not study.decided_by(s)] == []


@pytest.mark.parametrize("name", STUDIES)
def test_nothing_is_said_to_be_decided_by_no_check(name):
    """A sentence that belongs to no check would look decided; those of new checks wait for their run."""
    study = all_studies()[name]
    assert all(says[0].islower() or says[0].isdigit() for says in study.decides.values())
    assert all(not says.endswith(".") for says in study.decides.values())


def test_the_longest_start_wins():
    study = all_studies()["singularity.table_1"]
    assert "ResNeXt outperforms" in study.decided_by("ResNeXt's test accuracy is above ResNet's; x")
    assert study.decided_by("no such check") == ""
