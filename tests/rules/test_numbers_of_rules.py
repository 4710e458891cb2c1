"""What rules make of numbers that stand next to a limit."""

import pytest

from bathyscope.core.records import Block, Measurement, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.families.gradients import _smooth_range
from bathyscope.rules.families.nests import narrow_residual_space, worse_than_linear
from bathyscope.rules.rule import Thresholds


def certificate(**settings):
    block = Block(index=0, name="0", end="0", kind="Linear")
    known = Measurement(name="certificate", blocks=(), columns={}, settings=settings)
    return Evidence((block,), {"certificate": known}, 1e-7)


@pytest.mark.parametrize(("reachable", "number"), [(1.0, 1), (2.0, 0), (3.0, 0)])
def test_what_no_weights_can_better_is_not_worse_than_linear(reachable, number):
    facts = certificate(risk=2.0, linear_risk=1.0, attainable_risk=reachable, bound=0.0)
    assert len(list(worse_than_linear(facts, Thresholds.of()))) == number


@pytest.mark.parametrize(
    ("constant", "severity"), [(100.0, Severity.NOTE), (1.0, Severity.WARNING)]
)
def test_what_a_narrow_space_loses_is_a_fraction_of_the_constant_risk(constant, severity):
    facts = certificate(
        width_needed=6, rank=4, width=5, attainable_risk=0.5, bound=0.1, constant_risk=constant
    )
    (finding,) = narrow_residual_space(facts, Thresholds.of())
    assert finding.severity is severity
    assert finding.evidence["fraction_of_risk_lost"] == pytest.approx(0.4 / constant)


def test_a_growth_is_a_range_where_every_block_has_a_part_in_it():
    smooth = dict.fromkeys(range(12), 2.0)
    assert _smooth_range(smooth) == list(range(12))
    assert _smooth_range({**dict.fromkeys(range(12), 1.01), 5: 1e6}) == []
    assert _smooth_range({0: 2.0, 1: 2.0}) == []
