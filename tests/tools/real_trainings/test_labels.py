"""Labels of made-up curves of which one knows what they are."""

import numpy as np
import pytest

from tools.real_trainings.case import Case, Setting
from tools.real_trainings.curve import encode_curve
from tools.real_trainings.labels import label_curve, label_records
from tools.real_trainings.record import Record

STEPS = 400
t = np.linspace(0, 1, STEPS)
fall = np.exp(-8 * t)
CURVES = {
    "falls to the best": (0.5 + 1.8 * fall, "trains", ""),
    "noisy, falls to the best": (0.5 + 1.8 * fall + 0.1 * np.sin(97 * t), "trains", ""),
    "half of the way": (1.4 + 0.9 * fall, "lags", "behind"),
    "at the constant": (2.3 + 0.7 * fall, "fails", "stalled"),
    "never reaches the constant": (5.0 - t, "fails", "stalled"),
    "explodes": (2.3 * np.exp(6 * t), "fails", "diverged"),
    "learns, then back to the constant": (
        np.where(t < 0.6, 0.5 + 1.8 * fall, 2.3),
        "fails",
        "fell back",
    ),
    "one huge step, then learns": (np.where(t == t[50], 1e30, 0.5 + 1.8 * fall), "trains", ""),
}


@pytest.mark.parametrize("shift", [0.0, -40.0])
@pytest.mark.parametrize("name", CURVES)
def test_label_of_a_curve(name: str, shift: float) -> None:
    """The same with negative losses: only differences decide."""
    losses, label, reason = CURVES[name]
    result = label_curve(
        losses + shift, constant=2.3 + shift, best=0.5 + shift, scale=2.3, is_cut=False
    )
    assert (result.label, result.reason) == (label, reason)


def test_cut_off_is_non_finite() -> None:
    result = label_curve(np.ones(50), constant=2.3, best=0.5, scale=2.3, is_cut=True)
    assert (result.label, result.reason) == ("fails", "non-finite")


def test_no_setting_trains() -> None:
    result = label_curve(2.28 + 0 * t, constant=2.3, best=2.28, scale=2.3, is_cut=False)
    assert (result.label, result.reason) == ("fails", "no setting trains")


def _case(number: int, batch_size: int = 32) -> Case:
    setting = Setting("adam", 1e-3, batch_size, "constant", None, 0.0)
    return Case(
        f"a/00/{number}", "a/00", "a", "k", "dense", {}, "default", STEPS, setting, False, False
    )


def _record(number: int, losses: np.ndarray, constant: float) -> Record:
    curve = encode_curve(losses.tolist())
    return Record(
        f"a/00/{number}", 0, len(losses), curve, curve, [0], [1.0], [], constant, constant, None,
        1, 0.0, 0.0,
    )  # fmt: skip


def test_group_lags_behind_its_best() -> None:
    cases = [_case(0), _case(1), _case(2)]
    ends = {0: 0.5, 1: 1.6, 2: 2.25}
    records = [_record(n, end + (2.3 - end) * fall, 2.3) for n, end in ends.items()]
    labels = label_records(cases, records)
    assert [labels[f"a/00/{n}", 0].label for n in range(3)] == ["trains", "lags", "fails"]


def test_incomplete_group_has_no_labels() -> None:
    assert label_records([_case(0), _case(1)], [_record(0, fall, 2.3)]) == {}


def test_constant_that_depends_on_the_batch_size() -> None:
    """log 32 and log 128: the same fraction of the way is the same label."""
    cases = [_case(0, 32), _case(1, 128)]
    small, large = np.log(32), np.log(128)
    records = [
        _record(0, small * (0.2 + 0.8 * fall), small),
        _record(1, large * (0.2 + 0.8 * fall), large),
    ]
    labels = label_records(cases, records)
    assert {result.label for result in labels.values()} == {"trains"}
    assert labels["a/00/1", 0].progress == pytest.approx(labels["a/00/0", 0].progress, abs=1e-3)
