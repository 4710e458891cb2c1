"""Every coded claim of the papers: its verdict over seeds, and a wrong statement that is refused."""

import pytest
import torch

from bathyscope.claims import all_claims, check
from bathyscope.claims.sharing import keep_measurements
from bathyscope.core.records import Verdict
from tests.papers import broken

CODED = [name for name, claim in all_claims().items() if claim.measure is not None]
UNDER = {
    "shortcut_length.equation_3",
    *(f"norm_preservation.{k}" for k in ("theorem_3", "equation_8", "equation_9", "algorithm_1")),
    "norm_preservation.lemma_3",
    *(f"singularity.lemma_{k}" for k in (1, 2, 4, 5)),
    *(f"singularity.remark_{k}" for k in (2, 3, 5, 6, 8, 9)),
    "singularity.theorem_2",
    "singularity.corollary_2",
    "shortcut_length.assumption_3",
    "singularity.proposition_2",
    "singularity.finding_2",
    "shortcut_length.theorem_1",
    "nests.equation_7",
    "nests.corollary_2",
    "nests.section_3_2",
}
VIOLATED = {
    *(f"singularity.theorem_{k}" for k in (3, 4)),
    "singularity.definition_3",
    "singularity.definition_4",
    "singularity.remark_4",
}
NOT_SUPPORTED = {
    "singularity.section_7_architecture_search",
    *(f"singularity.finding_{k}" for k in (1, 3, 4)),
    "residual_alignment.ra_3",
    "curse_of_depth.cure",
}


@pytest.fixture(scope="module", autouse=True)
def each_measurement_is_made_once():
    """As in `bathyscope check all`; tests/claims/test_sharing.py holds that the numbers are the same."""
    with keep_measurements():
        yield


DEFINITIONS = {name for name in CODED if all_claims()[name].definition}


def expected(name):
    if name in UNDER:
        return Verdict.HOLDS_UNDER
    if name in NOT_SUPPORTED:
        return Verdict.NOT_SUPPORTED
    return Verdict.VIOLATED if name in VIOLATED else Verdict.HOLDS


def test_every_coded_claim_has_a_broken_variant_that_is_none_of_its_laws():
    assert set(broken.BROKEN) == set(CODED)
    for name, law in broken.BROKEN.items():
        claim = all_claims()[name]
        assert law not in (claim.law, claim.law_under, claim.law_corrected), name


# Twins of quicker claims on networks with four paths, and claims that train several networks.
LONG = {
    *(f"norm_preservation.section_4_1_{k}" for k in ("start", "stable")),
    *(f"singularity.remark_{k}" for k in (3, 6, 8)),
    *(f"singularity.finding_{k}" for k in (2, 3, 4)),
    "singularity.section_7_architecture_search",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in CODED]
)
def test_claim(name):
    before = torch.random.get_rng_state()
    result = check(name)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert result.verdict is expected(name), result.numbers["relations"]
    assert (result.extra_assumption is not None) == (result.verdict is Verdict.HOLDS_UNDER)
    # where a claim is violated we know what is true instead, and it was checked
    assert result.corrected is not None or result.verdict is not Verdict.VIOLATED
    assert not result.vacuous
    assert result.definition == (all_claims()[name].definition if name in DEFINITIONS else "")
    assert not all(relation.holds for relation in broken.BROKEN[name](result.numbers))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("name", CODED)
def test_the_verdict_does_not_depend_on_the_seed(name, seed):
    assert check(name, seed=seed).verdict is expected(name)
