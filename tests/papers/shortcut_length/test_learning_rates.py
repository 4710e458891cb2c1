"""The best learning rate of a network, and the loss it is judged by, on numbers made by hand."""

import math

import pandas as pd
import pytest

from bathyscope.papers.shortcut_length.studies.learning_rates import (
    RateGrid,
    at_best_rates,
    at_the_edge,
    best_rates,
)
from bathyscope.studies.examples import second_moments


def losses(**by_rate):
    """Two seeds of one network and depth: rates and their losses."""
    return pd.DataFrame(
        [
            {
                "kind": "xavier",
                "depth": 4,
                "rate": float(rate.removeprefix("at_")),
                "seed": s,
                "loss": v,
            }
            for rate, values in by_rate.items()
            for s, v in enumerate(values)
        ]
    )


def test_the_mean_over_seeds_decides_and_one_that_diverged_is_out():
    table = losses(at_1=(1.0, 9.0, 1.0), at_2=(3.0, 3.0, 3.0), at_3=(0.1, math.inf, 0.1))
    assert best_rates(table).iloc[0].to_dict() == {
        "kind": "xavier",
        "depth": 4,
        "rate": 2.0,
        "flat": False,
    }
    assert at_best_rates(table)["loss"].to_list() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(("worst", "flat"), [(1.01, True), (1.02, False)])
def test_losses_within_a_hundredth_are_flat_whatever_diverged(worst, flat):
    table = losses(at_1=(1.0, 1.0), at_2=(worst, worst), at_3=(math.inf, 1.0))
    assert best_rates(table)["flat"].to_list() == [flat]


def test_rate_and_loss_are_those_of_the_papers_loss():
    """L = 1/(2m) Σ ‖y − ŷ‖²: near zero weights ŷ = x, and there is next to no gradient."""
    grid = RateGrid(
        kind="shortcut_2",
        depth=2,
        relu=False,
        data="digits",
        num_train=None,
        rates=(0.1,),
        seeds=1,
        epochs=1,
        precision="float64",
    )
    (row,) = grid.rows()
    x, y = second_moments("digits", 10, None)
    assert row["loss"] == pytest.approx(float((y - x).square().sum() / (2 * len(x))), rel=0.05)


def test_a_best_rate_at_an_end_of_the_grid_is_named():
    rows = [
        {"kind": kind, "depth": 4, "rate": rate, "seed": 0, "loss": loss}
        for kind, losses in (("shortcut_2", (3.0, 2.0, 1.0)), ("xavier", (3.0, 1.0, 2.0)))
        for rate, loss in zip((0.1, 1.0, 2.0), losses, strict=True)
    ]
    check = at_the_edge(pd.DataFrame(rows))
    assert check.passed is None
    assert check.value == "2-shortcut, small start at depth 4"
    inside = [row for row in rows if row["kind"] == "xavier"]
    assert at_the_edge(pd.DataFrame(inside)).value == "none"
