"""A check of a claim: the verdict from the laws, what it takes and what it refuses."""

import math

import pytest
import torch

from bathyscope.claims import at_least, check
from bathyscope.claims.check import judge
from bathyscope.claims.claim import Claim, Measured
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Assumption, Verdict
from tests.papers import broken

QUICK = ["norm_preservation.lemma_1", "singularity.theorem_5", "shortcut_length.theorem_2"]


@pytest.mark.parametrize("name", QUICK)
def test_the_same_seed_gives_the_same_numbers(name):
    torch.manual_seed(1)
    first = check(name, seed=4)
    torch.manual_seed(2)
    second = check(name, seed=4)
    assert first.numbers == second.numbers
    assert check(name, seed=5).numbers != first.numbers


def test_an_own_law_is_judged_with_the_same_machinery():
    result = check("norm_preservation.lemma_1", law=broken.BROKEN["norm_preservation.lemma_1"])
    assert result.verdict is Verdict.VIOLATED
    assert result.corrected is None
    again = check("norm_preservation.lemma_1", law=lambda n: [at_least("one", 1, 0)])
    assert again.verdict is Verdict.HOLDS
    with pytest.raises(UsageError, match="compares nothing"):
        check("norm_preservation.lemma_1", law=lambda n: [])


def test_unknown_claims_are_named_with_their_nearest():
    with pytest.raises(UnknownName, match=r"nests\.theorem_1"):
        check("nests.theorm_1")


def test_a_statement_that_asserts_nothing_says_so():
    with pytest.raises(UsageError, match="nothing to test"):
        check("nests.remark_1")


def test_what_a_claim_does_not_take_is_refused():
    with pytest.raises(UsageError, match="does not take 'model'"):
        check("singularity.lemma_2", model=torch.nn.Linear(2, 2))
    with pytest.raises(UsageError, match="does not take 'size'"):
        check("singularity.lemma_2", settings={"size": 3})


def test_relations_that_are_not_numbers_do_not_hold():
    assert not at_least("nan", math.nan, 0).holds


def made_up(*, law, **fields):
    return Claim(
        name="nests.theorem_99",
        statement="x is at least 1",
        tested="by hand",
        measure=lambda seed: Measured(numbers={"x": 0.0}),
        law=law,
        **fields,
    )


def holds(numbers):
    return [at_least("x", numbers["x"], 0.0)]


def fails(numbers):
    return [at_least("x", numbers["x"], 1.0)]


def test_a_correction_is_told_only_where_it_holds():
    numbers = Measured(numbers={"x": 0.0})
    right = made_up(law=fails, corrected="x is at least 0", law_corrected=holds)
    wrong = made_up(law=fails, corrected="x is at least 1", law_corrected=fails)
    needless = made_up(law=holds, corrected="x is at least 0", law_corrected=holds)
    assert judge(right, numbers).corrected == "x is at least 0"
    assert judge(wrong, numbers).corrected is None
    assert judge(needless, numbers).corrected is None


def test_only_what_holds_can_be_vacuous():
    numbers = Measured(numbers={"x": 0.0})
    assert judge(made_up(law=holds, vacuous=holds), numbers).vacuous
    assert not judge(made_up(law=holds, vacuous=fails), numbers).vacuous
    assert not judge(made_up(law=fails, vacuous=holds), numbers).vacuous
    assert not judge(made_up(law=holds), numbers).vacuous


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"law": holds}, Verdict.HOLDS),
        ({"law": fails}, Verdict.VIOLATED),
        ({"law": fails, "empirical": True}, Verdict.NOT_SUPPORTED),
        ({"law": fails, "under": "x > 0", "law_under": holds}, Verdict.HOLDS_UNDER),
        ({"law": fails, "under": "x > 0", "law_under": fails}, Verdict.VIOLATED),
    ],
)
def test_the_verdict_follows_from_the_laws(fields, verdict):
    result = judge(made_up(**fields), Measured(numbers={"x": 0.0}))
    assert result.verdict is verdict
    assert (result.extra_assumption is not None) == (verdict is Verdict.HOLDS_UNDER)
    broken_assumption = (Assumption(statement="a", holds=False),)
    measured = Measured(numbers={"x": 0.0}, assumptions=broken_assumption)
    assert judge(made_up(**fields), measured).verdict is Verdict.INAPPLICABLE
