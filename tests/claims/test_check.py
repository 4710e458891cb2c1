"""Every coded claim: its verdict, its broken variant, its time, and that it is the same each time."""

import math
import os
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from bathyscope.claims import CLAIMS, at_least, check
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Verdict
from bathyscope.nets import densenest, resnest
from tests.claims import broken

CODED = [name for name, claim in CLAIMS.items() if claim.check is not None]
UNDER = {
    "shortcut_length.equation_3",
    *(f"norm_preservation.{k}" for k in ("theorem_3", "equation_8", "equation_9", "algorithm_1")),
    "norm_preservation.lemma_3",
    *(f"singularity.lemma_{k}" for k in (1, 2, 4, 5)),
    *(f"singularity.remark_{k}" for k in (2, 3, 5, 6, 8, 9)),
    "singularity.proposition_2",
    "singularity.corollary_2",
    "singularity.finding_2",
    "nests.equation_7",
    "nests.section_3_2",
}
VIOLATED = {
    *(f"singularity.theorem_{k}" for k in (2, 3, 4)),
    "singularity.definition_3",
    "singularity.definition_4",
    "singularity.remark_4",
    "singularity.section_7_architecture_search",
    *(f"singularity.finding_{k}" for k in (1, 3, 4)),
}


def expected(name):
    if name in UNDER:
        return Verdict.HOLDS_UNDER
    return Verdict.VIOLATED if name in VIOLATED else Verdict.HOLDS


def test_every_coded_claim_has_a_broken_variant():
    assert set(broken.BROKEN) == set(CODED)


# Twins of quicker claims on networks with four paths, and claims that train several networks.
LONG = {
    *(f"singularity.remark_{k}" for k in (3, 6, 8)),
    *(f"singularity.finding_{k}" for k in (2, 3, 4)),
    "singularity.section_7_architecture_search",
}
# Shapes checked at every call of 164 layers take their time too.
LIMIT = 20 if os.environ.get("BATHYSCOPE_TYPECHECK") else 5


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in CODED]
)
def test_claim(name):
    before = torch.random.get_rng_state()
    start = time.process_time()
    found = check(name)
    assert time.process_time() - start < LIMIT
    assert torch.equal(torch.random.get_rng_state(), before)
    assert found.verdict is expected(name), found.numbers["relations"]
    assert (found.extra_assumption is not None) == (found.verdict is Verdict.HOLDS_UNDER)
    # where a claim is violated we know what is true instead, and it was checked
    assert (found.corrected is not None) == (found.verdict is Verdict.VIOLATED)
    assert not all(relation.holds for relation in broken.BROKEN[name](found.numbers))


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("name", CODED)
def test_the_verdict_does_not_depend_on_the_seed(name, seed):
    assert check(name, seed=seed).verdict is expected(name)


def test_unknown_claims_are_named_with_their_nearest():
    with pytest.raises(UnknownName, match=r"nests\.theorem_1"):
        check("nests.theorm_1")


def test_a_claim_without_a_check_says_so(monkeypatch):
    uncoded = replace(CLAIMS["singularity.finding_1"], check=None)
    monkeypatch.setitem(CLAIMS, "singularity.finding_1", uncoded)
    with pytest.raises(UsageError, match="not coded yet"):
        check("singularity.finding_1")
    with pytest.raises(UsageError, match="nothing to test"):
        check("nests.remark_1")


def test_what_a_claim_does_not_take_is_refused():
    with pytest.raises(UsageError, match="does not take 'model'"):
        check("singularity.lemma_2", model=torch.nn.Linear(2, 2))
    with pytest.raises(UsageError, match="does not take 'size'"):
        check("singularity.lemma_2", settings={"size": 3})


def test_relations_that_are_not_numbers_do_not_hold():
    assert not at_least("nan", math.nan, 0).holds


def _with_a_module_as_mix():
    network = resnest(4, 2, width=14, feature_sizes=[3, 3])
    network.blocks[-1].mix = nn.Sequential(nn.Linear(3, 14, bias=False))
    return network


@pytest.mark.parametrize(
    ("claim", "network", "targets", "message"),
    [
        ("nests.theorem_1", resnest(4, 2, width=14, feature_sizes=[3, 3]), torch.ones(40, 2), "equal"),
        ("nests.theorem_1", resnest(4, 2, width=14, feature_sizes=[3, 3]),
         torch.zeros(40, dtype=torch.long), "equal"),
        ("nests.corollary_2", resnest(4, 2, width=14, feature_sizes=[3, 3]), torch.randn(40, 5),
         "5 values a sample"),
        ("nests.proposition_2", _with_a_module_as_mix(), torch.randn(40, 2), "nn.Linear layers"),
        ("nests.proposition_3", densenest(4, 2, feature_sizes=[3, 3]), torch.ones(40, 2), "equal"),
    ],
)  # fmt: skip
def test_what_no_statement_of_nests_can_be_tested_on_is_said(claim, network, targets, message):
    with pytest.raises(UsageError, match=message):
        check(claim, model=network, data=(torch.randn(40, 4), targets))
