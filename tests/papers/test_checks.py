"""The checks of studies on small made-up tables: they say yes to one, and no to another."""

import itertools
import math

import pandas as pd
import pytest

from bathyscope.papers.beyond.studies import common_cause, depth, transformers
from bathyscope.papers.shortcut_length.studies import figure_2 as weight_norms
from bathyscope.papers.shortcut_length.studies import figure_9, figure_10, figure_11
from bathyscope.papers.singularity.studies import (
    accuracy,
    conditions,
    curves,
    layer_deletion,
    similar_networks,
    unit_values,
    which_came_first,
)
from bathyscope.studies import all_studies


def quick(name):
    return all_studies()[name].presets["quick"]


def met(checks):
    """Of those that are judged."""
    return [check.met for check in checks if check.met is not None]


def test_unit_values_ask_every_seed():
    preset = quick("singularity.figure_5")

    def ranges(*first):
        return pd.DataFrame(
            [
                {"place": place, "seed": seed, "range": value if place == "first" else 5.0}
                for seed, value in enumerate(first)
                for place in ("first", "late")
            ]
        )

    assert met(unit_values.checks(ranges(1e6, 1e3), preset, network="plain")) == [True]
    assert met(unit_values.checks(ranges(1e6, 10.0), preset, network="plain")) == [False]
    assert met(unit_values.checks(ranges(1e6, 10.0), preset, network="resnet")) == [False]
    assert met(unit_values.checks(ranges(9.0, 10.0), preset, network="resnet")) == [True]


def accuracies(plain, resnet, resnext):
    return pd.DataFrame(
        [
            {"network": name, "lr": lr, "train_accuracy": value}
            for name, value in (("plain", plain), ("resnet", resnet), ("resnext", resnext))
            for lr in (0.01, 0.1)
        ]
    )


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((0.1, 0.99, 0.99), [True, True, True]),
        ((0.5, 0.99, 0.99), [False, True, True]),
        ((math.nan, 0.99, 0.5), [True, True, False]),
        ((0.1, 0.1, 0.99), [True, False, True]),
    ],
)
def test_tables_1_to_3_judge_every_network(values, wanted):
    assert met(accuracy.checks(accuracies(*values), quick("singularity.table_1"))) == wanted


def block_conditions(plain, resnet):
    return pd.DataFrame(
        [
            {
                "network": network,
                "data": "digits",
                "seed": 0,
                "index": index,
                "condition": value,
                "greatest": value,
            }
            for network, values in (("plain", plain), ("resnet", resnet), ("resnext", [2.0] * 3))
            for index, value in enumerate(values)
        ]
    )


def test_figure_13_wants_plain_singular_to_the_end_and_the_others_never():
    preset = quick("singularity.figure_13")
    inf = math.inf
    good = conditions.representation_checks(block_conditions([2, inf, inf], [3, 3, 3]), preset)
    assert met(good) == [True, True, True]
    again = conditions.representation_checks(block_conditions([inf, inf, 2], [3, 3, 3]), preset)
    assert met(again) == [False, True, True]
    bad = conditions.representation_checks(block_conditions([2, inf, inf], [3, inf, 3]), preset)
    assert met(bad) == [True, False, True]


def test_weights_of_the_plain_network_have_to_be_the_worse_conditioned():
    preset = quick("singularity.figure_11")
    assert met(conditions.weight_checks(block_conditions([9, 9, 9], [3, 3, 3]), preset)) == [True]
    assert met(conditions.weight_checks(block_conditions([2, 2, 2], [3, 3, 3]), preset)) == [False]


def test_a_plain_network_whose_loss_falls_is_not_met():
    preset = quick("singularity.figure_3")

    def losses(plain):
        return pd.DataFrame(
            [
                {"network": n, "seed": 0, "step": s, "loss": v, "accuracy": 0.0}
                for n, v in (("plain", plain), ("resnet", 0.5), ("resnext", 0.4))
                for s in range(10)
            ]
        )

    assert met(curves.checks(losses(2.3), preset)) == [True]
    assert met(curves.checks(losses(0.45), preset)) == [False]


def test_a_block_that_matters_is_seen_when_it_is_dropped():
    preset = quick("singularity.layer_deletion")

    def changes(resnet):
        return pd.DataFrame(
            [
                {"network": n, "seed": 0, "index": i, "transition": False, "loss_change": v}
                for n, v in (("plain", 0.0), ("resnet", resnet), ("resnext", 0.01))
                for i in range(3)
            ]
        )

    assert met(layer_deletion.checks(changes(0.02), preset)) == [True, True]
    assert met(layer_deletion.checks(changes(0.5), preset)) == [False, True]


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

    assert met(weight_norms.checks(norms(3.0, 2.0, 1.0), preset)) == [True]
    assert met(weight_norms.checks(norms(3.0, 1.0, 2.0), preset)) == [False]


def test_length_two_has_to_be_the_best_at_equal_size():
    preset = quick("shortcut_length.figure_9")

    def lengths(two, parameters=10):
        return pd.DataFrame(
            [
                {"depth": 20, "length": n, "test_error": e, "parameters": p}
                for n, e, p in ((1, 8.0, 10), (2, two, parameters), (3, 7.0, 10))
            ]
        )

    assert met(figure_9.checks(lengths(3.0), preset)) == [True, True]
    assert met(figure_9.checks(lengths(7.5), preset)) == [True, False]
    assert met(figure_9.checks(lengths(6.5), preset)) == [True, False]  # two images of 355
    assert met(figure_9.checks(lengths(3.0, parameters=20), preset)) == [False, True]


def deep_runs(tailored, plain):
    rows = [
        {"kind": kind, "lr": lr, "seed": seed, "accuracy": value, "cosine_start": value}
        for kind, lr, values in (
            ("tailored", 0.001, tailored),
            ("plain", 0.001, plain),
            ("shortcut", 0.01, [1.0, 1.0]),
            ("normalised", 0.003, [0.2, 0.2]),
        )
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_depth_without_shortcuts_wants_every_seed():
    preset = quick("beyond.dense_digits")
    assert met(depth.checks(deep_runs([0.95, 0.97], [0.3, 0.4]), preset)) == [True, True]
    assert met(depth.checks(deep_runs([0.95, 0.7], [0.3, 0.4]), preset)) == [False, True]
    assert met(depth.checks(deep_runs([0.95, 0.97], [0.95, 0.4]), preset)) == [True, False]


def test_depth_without_shortcuts_wants_every_rate_to_be_the_best_on_seeds_of_its_own():
    preset = quick("beyond.dense_digits").model_copy(update={"grid": (0.0003, 0.001, 0.01)})
    runs = deep_runs([0.95, 0.97], [0.3, 0.4])
    chosen = dict(zip(depth.KINDS, preset.rates, strict=True))

    def tried(best):
        return pd.DataFrame(
            {"kind": kind, "lr": lr, "seed": seed, "accuracy": 0.5 + 0.4 * (lr == best[kind])}
            for kind in depth.KINDS
            for lr in preset.grid
            for seed in (depth.CHOOSING, depth.CHOOSING + 1)
        )

    assert met(depth.checks(pd.concat([runs, tried(chosen)]), preset)) == [True] * 3
    found = depth.checks(pd.concat([runs, tried(chosen | {"plain": 0.01})]), preset)
    assert met(found) == [True, True, False]
    assert found[-1].text == "3 of 4"


def test_a_quantity_that_does_not_tell_networks_apart_does_not_explain_them():
    preset = quick("beyond.common_cause")
    table = deep_runs([0.95, 0.97], [0.3, 0.4])
    table = pd.concat([table, table])
    assert met(common_cause.checks(table, preset)) == [True]
    mixed = table.assign(cosine_start=[float(i % 2) for i in range(len(table))])
    found = common_cause.checks(mixed, preset)
    assert met(found) == [False]
    assert found[0].text == "8 of 16"


def transformer_runs(accuracy, rank, gradients, curvature):
    """Two depths of four forms; each argument has a value for every form, at both depths."""
    rows = []
    for form, values in zip(
        transformers.FORMS, zip(accuracy, rank, gradients, curvature, strict=True), strict=True
    ):
        right, left, low, bent = values
        for size in (2, 4):
            for block in range(size):
                last = block == size - 1
                rows.append(
                    {
                        "form": form,
                        "depth": size,
                        "seed": 0,
                        "moment": "start",
                        "block": block,
                        "stable_rank": left if last else 3.0,
                        "condition": 2.0,
                        "likeness": 0.5,
                        "gradient_norm": 1.0 if last else low,
                        "largest": bent if last else 1.0,
                        "smallest": -0.1,
                        "accuracy": right,
                    }
                )
    return pd.DataFrame(rows)


SOUND = {
    "accuracy": (1.0, 0.5, 0.2, 0.1),
    "rank": (2.0, 1.9, 1.1, 1.0),
    "gradients": (0.5, 0.4, 0.1, 0.0),
    "curvature": (2.0, 3.0, 10.0, 20.0),
}


@pytest.mark.parametrize(
    ("changed", "at"),
    [
        ({}, None),
        ({"accuracy": (0.8, 0.5, 0.2, 0.1)}, 0),
        ({"accuracy": (1.0, 0.5, 0.95, 0.1)}, 1),
        ({"rank": (2.0, 1.05, 1.1, 1.0)}, 2),
        ({"gradients": (0.5, 0.05, 0.1, 0.0)}, 3),
        ({"curvature": (2.0, 15.0, 10.0, 20.0)}, 4),
    ],
)
def test_what_carries_over_to_transformers_is_asked_of_every_run(changed, at):
    preset = quick("beyond.transformers")
    found = met(transformers.checks(transformer_runs(**(SOUND | changed)), preset))
    assert found == [i != at for i in range(5)]


def rivals(**accuracy):
    values = dict.fromkeys(similar_networks.RIVALS, 0.2) | {"resnet": 1.0} | accuracy
    return pd.DataFrame(
        [
            {"rival": name, "seed": 0, "epoch": 0, "train_accuracy": v, "test_accuracy": v}
            for name, v in values.items()
        ]
    )


def test_weights_that_are_kept_have_to_close_half_of_the_gap():
    preset = quick("singularity.similar_networks")
    last = met(similar_networks.checks(rivals(), preset))[-3:]
    assert last == [False, False, False]
    kept = rivals(delta_held=0.7, bare_held=0.5, dirac_held=0.9, dirac_start=0.9)
    assert met(similar_networks.checks(kept, preset))[-3:] == [True, False, False]
    gone = rivals()
    gone = gone[gone["rival"] != "bare_held"]  # it diverged, and has no epoch
    assert met(similar_networks.checks(gone, preset))[-3:] == [False, False, False]


def test_a_rival_within_the_error_of_its_test_images_is_not_behind():
    preset = quick("singularity.similar_networks")
    behind = met(similar_networks.checks(rivals(resnet=0.9, plain=0.7, delta=0.89), preset))
    assert behind[:2] == [True, False]


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
    assert met(figure_10.checks(path(), preset)) == [True, True, True]
    assert met(figure_10.checks(path(from_label=0.1), preset)) == [False, True, True]
    assert met(figure_10.checks(path(apart=0.3), preset)) == [True, False, True]
    assert met(figure_10.checks(path(movers=2), preset)) == [True, True, False]


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
    assert met(figure_11.checks(pattern(), preset)) == [True] * 5
    assert met(figure_11.checks(pattern(elsewhere=0.1), preset))[0] is False
    assert met(figure_11.checks(pattern(differs=0.1), preset))[1] is False
    assert met(figure_11.checks(pattern(three=0.1), preset))[-1] is False


def test_an_untrained_network_of_a_hundred_classes_stays_near_one_percent():
    preset = all_studies()["singularity.table_3"].presets["full"]
    table = accuracies(0.05, 0.99, 0.99)
    assert met(accuracy.checks(table, preset)) == [False, True, True]
    assert met(accuracy.checks(accuracies(0.012, 0.99, 0.99), preset)) == [True, True, True]


def events(plain_order, residual_singular):
    """A plain run with (singularity, explosion) at these steps, and a residual one."""
    runs = (("plain", *plain_order), ("residual", residual_singular, math.nan))
    return pd.DataFrame(
        [
            {
                "skip": skip,
                "normalised": "BatchNorm",
                "start": "he",
                "lr": 0.1,
                "seed": 0,
                "event": event,
                "step": steps.get(event, math.nan),
                "block": None,
            }
            for skip, singular, explosion in runs
            for steps in [{"singularity": singular, "gradient_explosion": explosion}]
            for event in which_came_first.EVENTS
        ]
    )


@pytest.mark.parametrize(
    ("plain_order", "residual_singular", "wanted"),
    [
        ((1.0, 4.0), math.nan, [True, True]),
        ((4.0, 0.0), math.nan, [False, True]),
        ((2.0, 2.0), math.nan, [False, True]),  # seen at one measurement: no order
        ((1.0, 4.0), 8.0, [True, False]),
        ((math.nan, 0.0), math.nan, [True]),  # nothing to put in order
    ],
)
def test_singularity_has_to_come_first_and_not_with_skips(plain_order, residual_singular, wanted):
    preset = quick("singularity.which_came_first")
    assert met(which_came_first.checks(events(plain_order, residual_singular), preset)) == wanted
