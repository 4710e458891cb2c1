"""Claims that are judged by one measurement share it, where they are checked together."""

import pytest

from bathyscope import claims
from bathyscope.claims import Measured, sharing
from bathyscope.claims.sharing import keep_measurements, measured


@pytest.fixture
def counted():
    """A measurement that counts how often it is made."""
    made = []

    def measure(seed, *, model=None):
        made.append(seed)
        return Measured(numbers={"seed": [seed], "model": model})

    measure.made = made
    return measure


def test_it_is_made_once_a_seed(counted):
    with keep_measurements():
        first, again, other = (measured(counted, seed) for seed in (0, 0, 1))
    assert counted.made == [0, 1]
    assert (first, again) == (measured(counted, 0), measured(counted, 0))
    assert other.numbers["seed"] == [1]


def test_each_has_its_own_copy(counted):
    with keep_measurements():
        measured(counted, 0).numbers["seed"].append("spoilt")
        assert measured(counted, 0).numbers["seed"] == [0]


def test_nothing_is_kept_outside_nor_afterwards(counted):
    for _ in range(2):
        measured(counted, 0)
        with keep_measurements():
            measured(counted, 0)
    assert counted.made == [0, 0, 0, 0]


def test_what_the_user_gave_is_measured_each_time(counted):
    with keep_measurements():
        measured(counted, 0)
        assert measured(counted, 0, model="own").numbers["model"] == "own"
        assert measured(counted, 0).numbers["model"] is None
    assert counted.made == [0, 0]


def test_verdicts_and_numbers_are_those_of_each_alone():
    names = [f"norm_preservation.{number}" for number in ("lemma_2", "theorem_1")]
    alone = [claims.check(name, seed=3) for name in names]
    with keep_measurements():
        together = [claims.check(name, seed=3) for name in names]
        assert len(sharing._KEPT.get()) == 1
    for one, shared in zip(alone, together, strict=True):
        assert one.verdict is shared.verdict
        assert one.numbers == shared.numbers
        assert one.assumptions == shared.assumptions
