"""Relations at and beside their limits."""

import math

import pytest

from bathyscope.claims import at_least, at_most, equal


@pytest.mark.parametrize(
    ("relation", "holds"),
    [
        (at_most("a", 1, 1), True),
        (at_most("a", 1.1, 1), False),
        (at_most("a", 1.1, 1, slack=0.2), True),
        (at_least("a", 1, 1), True),
        (at_least("a", 0.9, 1), False),
        (equal("a", 1, 1.05, slack=0.1), True),
        (equal("a", 1, 1.2, slack=0.1), False),
        (equal("a", math.inf, math.inf), True),
        (equal("a", -math.inf, math.inf), False),
        (at_most("a", math.nan, 1), False),
        (equal("a", 1, math.nan), False),
    ],
)
def test_holds(relation, holds):
    assert relation.holds is holds
    assert relation.as_dict()["holds"] is holds
