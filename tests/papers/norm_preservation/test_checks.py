"""The checks of norm_preservation's studies on small made-up tables: they count cells, seeds and images."""

import itertools

import pandas as pd
import pytest

from bathyscope.papers.norm_preservation.studies import (
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    table_1,
    table_2,
    table_3,
)
from tests.papers.judged import passed, quick


def channel_ratios(moved):
    """Ratios of 2 without projection; with it 1.1 in `moved` of nine cells, else 4, as in a wrong figure."""
    cells = list(itertools.product((4, 16, 64), repeat=2))
    usual = [cell for cell in cells if cell[0] / cell[1] >= figure_2._FEW]
    near = set(usual[:moved])
    return len(usual), pd.DataFrame(
        [
            {"c": c, "d": d, "projected": p, "seed": 0, "ratio": r}
            for c, d in cells
            for p, r in ((False, 2.0), (True, 1.1 if (c, d) in near else 4.0))
        ]
    )


def test_a_projection_that_moves_half_the_cells_away_is_not_met():
    preset = quick("norm_preservation.figure_2")
    count, _ = channel_ratios(0)
    assert passed(figure_2.checks(channel_ratios(count)[1], preset)) == [True]
    result = figure_2.checks(channel_ratios(count // 2)[1], preset)
    assert passed(result) == [False]
    assert result[0].text.startswith(f"{count // 2} of {count}")


@pytest.mark.parametrize(("near", "wanted"), [(9, True), (8, False)])
def test_nine_of_ten_cells_are_almost_all_and_below_one_is_as_far_as_above(near, wanted):
    cells = list(itertools.product((64, 128, 256, 512, 1024), (4, 8)))
    table = pd.DataFrame(
        [
            {"c": c, "d": d, "projected": p, "seed": 0, "ratio": r}
            for i, (c, d) in enumerate(cells)
            for p, r in ((False, 2.0), (True, 1.1 if i < near else 0.25))
        ]
    )
    assert passed(figure_2.checks(table, quick("norm_preservation.figure_2"))) == [wanted]


def errors(first, second, third=0.0):
    names = ("resnet", "procresnet", "procresnet_free")
    return pd.DataFrame(
        [
            {
                "variant": name,
                "data": "digits",
                "depth": 20,
                "erased": False,
                "seed": 0,
                "test_error": error,
                "parameters": 100,
            }
            for name, error in zip(names, (first, second, third), strict=True)
        ]
    )


def test_one_image_decides_nothing():
    """Of 355 test images one is 0.28 points, the standard error of a difference of errors of 5 % is 1.6."""
    preset = quick("norm_preservation.table_2")
    assert passed(table_2.checks(errors(5.28, 5.0), preset)) == [False]
    assert passed(table_2.checks(errors(9.0, 5.0), preset)) == [True]
    assert passed(table_2.checks(errors(5.0, 9.0), preset)) == [False]


def test_each_change_has_to_lower_the_error():
    preset = quick("norm_preservation.table_3")
    assert passed(table_3.checks(errors(12.0, 4.0, 8.0), preset)) == [True, True]
    assert passed(table_3.checks(errors(12.0, 8.0, 8.0), preset)) == [True, False]
    assert passed(table_3.checks(errors(8.0, 4.0, 8.1), preset)) == [False, True]


def test_a_gap_that_is_smaller_at_one_depth_only():
    rows = [
        {"variant": variant, "depth": depth, "seed": 0, "mean": value, "max": 2 * value}
        for depth, values in ((20, (3.0, 2.0)), (47, (3.0, 4.0)))
        for variant, value in zip(("resnet", "procresnet"), values, strict=True)
    ]
    preset = quick("norm_preservation.table_1")
    result = table_1.checks(pd.DataFrame(rows), preset)
    assert passed(result) == [False, False]
    assert [check.text[:6] for check in result] == ["1 of 2", "1 of 2"]
    assert passed(table_1.checks(pd.DataFrame(rows[:2]), preset)) == [True, True]


def test_figure_5_counts_depths_beyond_the_error():
    preset = quick("norm_preservation.figure_5")
    assert passed(figure_5.checks(errors(9.0, 5.0), preset)) == [True]
    assert passed(figure_5.checks(errors(5.3, 5.0), preset)) == [False]  # one image


def epochs(plain, proc, changes):
    """Two seeds at one depth: losses at the end, and test errors that move by `changes` an epoch."""
    return pd.DataFrame(
        [
            {
                "variant": variant,
                "depth": 20,
                "seed": seed,
                "epoch": epoch,
                "train_loss": loss,
                "test_error": 30 + change * (epoch % 2),
            }
            for variant, losses in (("plain", plain), ("resnet", (1.0, 1.0)), ("procresnet", proc))
            for seed, loss in enumerate(losses)
            for change in [changes[seed] if variant == "procresnet" else 3.0]
            for epoch in range(4)
        ]
    )


def test_figure_4_asks_every_seed():
    preset = quick("norm_preservation.figure_4")
    good = figure_4.checks(epochs((2.0, 2.0), (0.5, 0.5), (1.0, 2.0)), preset)
    assert passed(good) == [True, True, True]
    one_seed = figure_4.checks(epochs((9.0, 0.8), (0.5, 0.9), (1.0, 4.0)), preset)
    assert passed(one_seed) == [False, False, False]
    assert [c.text[:6] for c in one_seed if c.passed is not None] == ["1 of 2"] * 3


def block_ratios(plain, resnet_by_depth):
    """Blocks that keep the dimension: |log₂ ratio| of three of them, at two depths."""
    spread = (0.9, 1.0, 1.1)
    return pd.DataFrame(
        [
            {
                "variant": variant,
                "depth": depth,
                "seed": 0,
                "block": f"b{i}",
                "part": "block",
                "transition": False,
                "stem": False,
                "step": 1,
                "ratio": 2 ** (size * factor),
            }
            for depth, resnet in zip((20, 29), resnet_by_depth, strict=True)
            for variant, size in (("plain", plain), ("resnet", resnet), ("procresnet", resnet))
            for i, factor in enumerate(spread)
        ]
    )


@pytest.mark.parametrize(
    ("plain", "resnet", "wanted"),
    [
        (2.0, (1.0, 0.5), [True, True, True]),
        (2.0, (0.5, 1.0), [False, False, True]),
        (2.0, (1.0, 0.98), [False, False, True]),  # within the spread of the blocks
        (0.51, (1.0, 0.5), [True, True, False]),
    ],
)
def test_figure_3_judges_blocks_beyond_their_spread(plain, resnet, wanted):
    result = figure_3._checks_of_blocks(block_ratios(plain, resnet))
    assert [check.passed for check in result] == wanted
