"""The checks of shortcut_length on small made-up tables: they say yes to one, and no to another."""

import itertools
import math

import pandas as pd
import pytest

from bathyscope.papers.shortcut_length.studies import figure_2 as weight_norms
from bathyscope.papers.shortcut_length.studies import (
    figure_4,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
)
from tests.papers.judged import passed, quick


def test_norms_have_to_fall_with_every_depth():
    preset = quick("shortcut_length.figure_2")

    def norms(*last):
        return pd.DataFrame(
            [
                {"depth": d, "step": s, "seed": 0, "mean_norm": v if s else 5.0}
                for d, v in zip((20, 32, 56), last, strict=True)
                for s in (0, 10)
            ]
        )

    assert passed(weight_norms.checks(norms(3.0, 2.0, 1.0), preset)) == [True]
    assert passed(weight_norms.checks(norms(3.0, 1.0, 2.0), preset)) == [False]


def test_length_two_has_to_be_the_best_at_equal_size():
    preset = quick("shortcut_length.figure_9")

    def lengths(two, parameters=10):
        return pd.DataFrame(
            [
                {"depth": 20, "length": n, "test_error": e, "parameters": p}
                for n, e, p in ((1, 8.0, 10), (2, two, parameters), (3, 7.0, 10))
            ]
        )

    assert passed(figure_9.checks(lengths(3.0), preset)) == [True, True]
    assert passed(figure_9.checks(lengths(7.5), preset)) == [True, False]
    assert passed(figure_9.checks(lengths(6.5), preset)) == [True, False]  # two images of 355
    assert passed(figure_9.checks(lengths(3.0, parameters=20), preset)) == [False, True]


@pytest.mark.parametrize(
    ("second", "others", "wanted"), [(4.0, 6.0, True), (6.0, 6.0, False), (4.0, 4.0, False)]
)
def test_figure_9_wants_length_2_alone_to_gain(second, others, wanted):
    rows = [
        {
            "length": n,
            "depth": depth,
            "test_error": 5.0 if depth == 38 else second if n == 2 else others,
        }
        for n in (1, 2, 3)
        for depth in (38, 74)
    ]
    assert figure_9._only_two_gains(pd.DataFrame(rows), 0.5).passed is wanted
    assert figure_9._only_two_gains(pd.DataFrame(rows), 2.0).passed is False


def path(apart=0.5, from_label=0.0, movers=1):
    return pd.DataFrame(
        [
            {
                "unit": unit,
                "sample": sample,
                "seed": 0,
                "moved": 0.1 if unit and sample < movers else 0.0,
                "apart": apart,
                "from_label": from_label,
                "rho": 0.8,
                "weight_norm": 1.0,
            }
            for unit in (0, 1)
            for sample in (0, 1, 2)
        ]
    )


def test_a_path_has_to_arrive_keep_its_distance_and_move_one_sample():
    preset = quick("shortcut_length.figure_10")
    assert passed(figure_10.checks(path(), preset)) == [True, True, True]
    assert passed(figure_10.checks(path(from_label=0.1), preset)) == [False, True, True]
    assert passed(figure_10.checks(path(apart=0.3), preset)) == [True, False, True]
    assert passed(figure_10.checks(path(movers=2), preset)) == [True, True, False]


def pattern(elsewhere=0.0, three=0.0, differs=0.0):
    rows = []
    for length, size in ((1, lambda *_: 1.0), (3, lambda *_: three)):
        rows += [
            {"length": length, "unit": r, "other_unit": s, "layer": 0, "other_layer": 0}
            | {"largest": size(r, s), "from_first": 0.0, "from_transpose": 0.0}
            for r, s in itertools.product(range(2), repeat=2)
        ]
    for r, k, s, m in itertools.product(range(2), repeat=4):
        inside = r == s and k != m
        rows.append(
            {"length": 2, "unit": r, "other_unit": s, "layer": k, "other_layer": m}
            | {
                "largest": 1.0 if inside else elsewhere,
                "from_first": differs,
                "from_transpose": 0.0,
            }
        )
    return pd.DataFrame(rows)


def test_a_block_outside_the_pattern_is_seen():
    preset = quick("shortcut_length.figure_11")
    assert passed(figure_11.checks(pattern(), preset)) == [True] * 5
    assert passed(figure_11.checks(pattern(elsewhere=0.1), preset))[0] is False
    assert passed(figure_11.checks(pattern(differs=0.1), preset))[1] is False
    assert passed(figure_11.checks(pattern(three=0.1), preset))[-1] is False


def grid(**ends):
    """Two depths, three seeds around each loss, at one learning rate but for 2-shortcut's higher one."""
    return pd.DataFrame(
        [
            {
                "kind": kind,
                "depth": depth,
                "rate": 1.0 if kind == "shortcut_2" else 0.1,
                "seed": seed,
                "loss": loss * around,
                "excess": loss * around,
            }
            for kind, losses in ends.items()
            for depth, loss in zip((4, 32), losses, strict=True)
            for seed, around in enumerate((0.9, 1.0, 1.1))
        ]
    )


def test_figure_8_wants_depth_to_pay_for_length_2_alone():
    preset = quick("shortcut_length.figure_8")

    def met(two=(0.3, 0.1), orthogonal=(0.2, 0.4), xavier=(0.2, 0.5)):
        table = grid(shortcut_2=two, orthogonal=orthogonal, xavier=xavier)
        return passed(figure_8.checks(table, preset))

    assert met() == [True] * 4
    assert met(two=(0.1, 0.11)) == [False, True, True, True]
    assert met(orthogonal=(0.2, 0.11)) == [True, False, True, True]  # within twice the error
    assert met(xavier=(0.5, 0.45)) == [True, True, True, False]
    assert met(xavier=(0.5, math.inf)) == [True] * 4


def test_figure_7_wants_length_2_at_the_optimum_and_the_others_farther():
    preset = quick("shortcut_length.figure_7")

    def met(two=(1e-4, 1e-4), orthogonal=(1e-3, 1e-3), xavier=(1e-3, 1e-1)):
        table = grid(shortcut_2=two, orthogonal=orthogonal, xavier=xavier)
        return passed(figure_7.checks(table, preset))

    assert met() == [True] * 4
    assert met(two=(2e-3, 1e-4))[0] is False
    assert met(orthogonal=(1e-3, 1e-4)) == [True, False, True, True]
    assert met(xavier=(1e-3, 1.05e-4)) == [True, True, False, True]


def test_figure_4_wants_growth_beyond_the_seeds():
    preset = quick("shortcut_length.figure_4")

    def met(**deepest):
        ends = {
            "zero_2": 1.5,
            "shortcut_2": 1.5,
            "shortcut_1": 9.0,
            "xavier": 1e6,
            "orthogonal": 9.0,
        }
        rows = [
            {"kind": kind, "depth": depth, "seed": seed, "condition": value * around}
            for kind, last in (ends | deepest).items()
            for depth, value in ((2, 1.5), (24, last))
            for seed, around in enumerate((1.0, 1.0) if kind == "zero_2" else (0.8, 1.2))
        ]
        return passed(figure_4.checks(pd.DataFrame(rows), preset))

    assert met() == [True] * 5
    assert met(zero_2=1.6)[0] is False
    assert met(shortcut_1=2.9)[1] is False
    assert met(orthogonal=4.0)[3] is False  # 2.7-fold, where the seeds differ by half
    assert met(xavier=math.inf)[2] is True
    assert met(xavier=5.0)[-1] is False
