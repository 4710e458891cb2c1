"""A curve comes back from its text with four significant digits."""

import numpy as np

from tools.real_trainings.curve import decode_curve, encode_curve


def test_round_trip() -> None:
    values = np.random.default_rng(0).lognormal(0, 8, 500) * np.array([1, -1]).repeat(250)
    back = decode_curve(encode_curve(values.tolist()))
    assert len(back) == 500
    assert np.abs(back / values - 1).max() < 1.3e-4


def test_non_finite_values_stay() -> None:
    back = decode_curve(encode_curve([1.0, float("nan"), float("inf"), -float("inf"), 0.0]))
    assert back[0] == 1
    assert np.isnan(back[1])
    assert back[2] == np.inf
    assert back[3] == -np.inf
    assert back[4] == 0


def test_empty() -> None:
    assert len(decode_curve(encode_curve([]))) == 0


def test_it_is_compact() -> None:
    noisy = (2 + 0.1 * np.random.default_rng(0).standard_normal(1000)).tolist()
    assert len(encode_curve(noisy)) < 3200
