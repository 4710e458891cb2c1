"""Schedules are factors between 0 and 1 that reach 1 once and have the shape that they name."""

import pytest

from tools.real_trainings.schedules import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("budget", [1, 7, 300, 2000])
def test_between_nothing_and_the_peak(name: str, budget: int) -> None:
    factors = [SCHEDULES[name](step, budget) for step in range(budget)]
    assert all(0 <= factor <= 1 for factor in factors)
    if budget >= 300:
        assert max(factors) == pytest.approx(1, abs=1e-3)


def test_shapes() -> None:
    cosine = [SCHEDULES["cosine-warmup"](step, 400) for step in range(400)]
    assert cosine[:20] == sorted(cosine[:20])
    assert cosine[19:] == sorted(cosine[19:], reverse=True)
    assert SCHEDULES["one-cycle"](0, 400) == pytest.approx(1 / 25)
    assert [SCHEDULES["step"](step, 400) for step in (199, 200, 300)] == pytest.approx(
        [1, 0.1, 0.01]
    )
