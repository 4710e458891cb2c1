"""Claims and studies that speak of the same thing do not contradict each other without a word."""

from dataclasses import replace
from pathlib import Path

import pytest

from bathyscope.claims import all_claims
from bathyscope.studies import all_studies, published_claims, read_published
from tests.papers.contradictions import contradictions

RESULTS = Path(__file__).parents[2] / "docs" / "results"
CLAIM = "singularity.corollary_2"
STUDY = "singularity.figure_13"


@pytest.fixture(scope="module")
def published():
    return published_claims(RESULTS), read_published(RESULTS)


def test_no_pair_contradicts_without_a_word(published):
    assert contradictions(all_claims(), *published) == []


def test_links_lead_to_claims_and_to_checks_of_studies(published):
    _, results = published
    for claim in all_claims().values():
        for link in claim.links:
            if link.to in all_claims():
                assert not link.check
                continue
            assert link.to in all_studies(), (claim.name, link.to)
            checks = [c for r in results[link.to].values() for c in r["checks"]]
            assert any(link.check in c["statement"] for c in checks), (claim.name, link)


@pytest.mark.parametrize(
    ("verdict", "passed", "difference", "found"),
    [
        ("holds", False, "", True),
        ("violated", True, "", True),
        ("not supported here", True, "", True),
        ("holds under", True, "", False),
        ("violated", False, "", False),
        ("holds", False, "the study is smaller", False),
        ("holds", None, "", False),
        ("inapplicable", False, "", False),
    ],
)
def test_a_planted_contradiction_is_found(verdict, passed, difference, found):
    claim = all_claims()[CLAIM]
    link = replace(claim.links[0], to=STUDY, check="ResNeXt", difference=difference)
    checks = [
        {"statement": "ResNeXt's are the smaller", "passed": passed},
        {"statement": "another", "passed": False},
    ]
    result = contradictions(
        {CLAIM: replace(claim, links=(link,))},
        {CLAIM: {"verdict": verdict}},
        {STUDY: {"quick": {"checks": [{**checks[0], "passed": True}]}, "full": {"checks": checks}}},
    )
    assert bool(result) == found
    assert not found or (CLAIM in result[0] and STUDY in result[0])


def test_claims_are_held_against_claims_too():
    first, second = (all_claims()[name] for name in (CLAIM, "singularity.remark_9"))
    link = replace(first.links[0], to=second.name, check="", difference="")
    verdicts = {CLAIM: {"verdict": "holds"}, second.name: {"verdict": "violated"}}
    assert contradictions({CLAIM: replace(first, links=(link,))}, verdicts, {})


def test_the_flipped_verdict_of_a_linked_claim_is_noticed(published):
    """Of every published claim that is linked without a reason to differ."""
    verdicts, results = published
    flipped = {"holds": "violated", "holds under": "violated"}
    for name, claim in all_claims().items():
        if name not in verdicts or all(link.difference for link in claim.links):
            continue
        word = flipped.get(str(verdicts[name]["verdict"]), "holds")
        planted = {**verdicts, name: {**verdicts[name], "verdict": word}}
        assert any(name in c for c in contradictions(all_claims(), planted, results)), name
