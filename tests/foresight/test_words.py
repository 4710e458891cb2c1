"""A forecast's features as a reader is told them."""

import math

import pytest

from bathyscope.foresight.goal import Goal
from bathyscope.foresight.readings import Reading
from bathyscope.foresight.words import describe_evidence


@pytest.mark.parametrize(
    ("early", "late", "result"), [(2.0, 0.5, "fell by 75 %"), (0.5, 2.0, "rose by 300 %")]
)
def test_a_slope_is_told_as_the_share_that_the_loss_lost_or_gained(early, late, result):
    goal = Goal(kind="labels", constant_loss=2.3, chance=0.1)
    slope = {"slope": math.log(late / early)}
    seen = Reading(step=2, values=slope, losses=(early, late), goal=goal, finite=True)
    assert result in describe_evidence("slope", seen)
