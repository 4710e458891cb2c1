"""A check of a claim: the verdict from the laws, what it takes and what it refuses."""

import math

import pytest
import torch

from bathyscope.claims import at_least, check
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Verdict
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
    found = check("norm_preservation.lemma_1", law=broken.BROKEN["norm_preservation.lemma_1"])
    assert found.verdict is Verdict.VIOLATED
    assert found.corrected is None
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
