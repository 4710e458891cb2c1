"""Verdicts from constructed numbers, for which the answer is known."""

from dataclasses import replace

import pytest

from bathyscope.claims import Claim, Measured, at_least, at_most
from bathyscope.claims.check import judge
from bathyscope.core.records import Assumption, Verdict

CLAIM = Claim(
    name="toy.lemma_1",
    statement="x is at most 1.",
    tested="By looking.",
    measure=lambda seed: Measured(numbers={"x": 0.0}),
    law=lambda n: [at_most("x", n["x"], 1)],
    under="x may be 2",
    law_under=lambda n: [at_most("x", n["x"], 2)],
    corrected="x is at most 3",
    law_corrected=lambda n: [at_most("x", n["x"], 3)],
    vacuous=lambda n: [at_most("x", n["x"], -1)],
)


@pytest.mark.parametrize(
    ("x", "verdict", "vacuous", "corrected"),
    [
        (-2.0, Verdict.HOLDS, True, None),
        (0.5, Verdict.HOLDS, False, None),
        (1.5, Verdict.HOLDS_UNDER, False, None),
        (2.5, Verdict.VIOLATED, False, "x is at most 3"),
        (3.5, Verdict.VIOLATED, False, None),  # what is true instead must hold too
        (float("nan"), Verdict.VIOLATED, False, None),
    ],
)
def test_the_verdict_follows_the_laws(x, verdict, vacuous, corrected):
    result = judge(CLAIM, Measured(numbers={"x": x}))
    assert (result.verdict, result.vacuous, result.corrected) == (verdict, vacuous, corrected)
    assert result.extra_assumption == ("x may be 2" if verdict is Verdict.HOLDS_UNDER else None)


def test_an_experiment_that_fails_refutes_nothing():
    result = judge(replace(CLAIM, empirical=True), Measured(numbers={"x": 2.5}))
    assert result.verdict is Verdict.NOT_SUPPORTED
    assert result.corrected == "x is at most 3"


def test_a_failed_assumption_comes_before_all_laws():
    broken = (Assumption(statement="y", holds=False), Assumption(statement="z", holds=True))
    result = judge(CLAIM, Measured(numbers={"x": 0.0}, assumptions=broken))
    assert result.verdict is Verdict.INAPPLICABLE
    assert not result.vacuous


def test_another_law_replaces_all_of_the_claims():
    result = judge(CLAIM, Measured(numbers={"x": 1.5}), law=lambda n: [at_least("x", n["x"], 2)])
    assert result.verdict is Verdict.VIOLATED
    assert set(result.numbers["relations"]) == {"printed"}
