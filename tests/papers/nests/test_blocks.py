"""The checks of risk block by block on small made-up tables."""

import pandas as pd
import pytest

from bathyscope.papers.nests.studies import blocks
from bathyscope.papers.nests.studies.vectors import LABELS, network
from tests.papers.judged import passed, quick

SOLVED = {"resnest": 0.30, "narrow": 0.40, "aresnest": 0.25, "densenest": 0.29}


def risks(location=None, value=None):
    """Two seeds of every form with three blocks; `place` is (form, seed, column), at the last block."""
    frame = pd.DataFrame(
        [
            {
                "form": form,
                "seed": seed,
                "feature": feature,
                "block_risk": SOLVED[form] + above,
                "truncated_risk": SOLVED[form] + above,
                "bound": SOLVED[form],
                "attainable_risk": SOLVED[form] + (2e-6 if form == "narrow" else 0.0),
                "linear_risk": 0.6,
            }
            for form in LABELS
            for seed in range(2)
            for feature, above in enumerate((0.2, 0.1, 0.0))
        ]
    )
    if location is not None:
        form, seed, column = location
        last = (frame["form"] == form) & (frame["seed"] == seed) & (frame["feature"] == 2)
        frame.loc[last, column] = value
    return frame


@pytest.mark.parametrize(
    ("location", "value", "missed"),
    [
        (("aresnest", 1, "block_risk"), 0.351, 0),  # one run of eight rises by its last block
        (("densenest", 0, "bound"), 0.6, 1),  # as high as the linear one's
        (("resnest", 1, "attainable_risk"), 0.30 + 3e-6, 2),
        (("densenest", 1, "bound"), 0.32, 4),
    ],
)
def test_one_run_that_differs_is_seen(location, value, missed):
    preset = quick("nests.blocks")
    assert passed(blocks.checks(risks(), preset)) == [True] * 5
    assert passed(blocks.checks(risks(location, value), preset))[missed] is False


def test_a_narrow_one_that_reaches_its_bound_is_not_too_narrow():
    frame = risks()
    frame.loc[frame["form"] == "narrow", "attainable_risk"] = SOLVED["narrow"] + 1e-6 / 2
    assert passed(blocks.checks(frame, quick("nests.blocks")))[3] is False


def test_later_weights_set_to_zero_are_counted_run_by_run():
    frame = risks(("resnest", 0, "truncated_risk"), 0.45)
    assert blocks.checks(frame, quick("nests.blocks"))[-1].text.startswith("1 of 8")


@pytest.mark.parametrize("form", ["resnest", "narrow"])
def test_the_wide_one_has_room_for_all_but_the_last_feature_and_the_output(form):
    """M = ΣK_i (i < L) + N_o, the input and its constant among the features."""
    built = network(form, 7, 3, num_blocks=4, features=5)
    assert built.output.in_features == (7 + 1 + 3 * 5 + 3 if form == "resnest" else 7)
