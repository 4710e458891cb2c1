"""The checks of singularity on small made-up tables: they say yes to one, and no to another."""

import math

import pandas as pd
import pytest

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
from tests.papers.judged import passed, quick


def test_unit_values_ask_every_seed():
    preset = quick("singularity.figure_5")

    def ranges(*first):
        return pd.DataFrame(
            [
                {"place": location, "seed": seed, "range": value if location == "first" else 5.0}
                for seed, value in enumerate(first)
                for location in ("first", "late")
            ]
        )

    assert passed(unit_values.checks(ranges(1e6, 1e3), preset, network="plain")) == [True]
    assert passed(unit_values.checks(ranges(1e6, 10.0), preset, network="plain")) == [False]
    assert passed(unit_values.checks(ranges(1e6, 10.0), preset, network="resnet")) == [False]
    assert passed(unit_values.checks(ranges(9.0, 10.0), preset, network="resnet")) == [True]


def accuracies(plain, resnet, resnext):
    return pd.DataFrame(
        [
            {"network": name, "lr": lr, "train_accuracy": value, "test_accuracy": value}
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
    result = passed(accuracy.checks(accuracies(*values), quick("singularity.table_1")))
    generalizes = min(values[1:]) > 0.75  # one seed: the order of ResNet and ResNeXt is not judged
    assert result == [*wanted, generalizes]


@pytest.mark.parametrize(
    ("resnet", "resnext", "wanted"),
    [
        ((0.80, 0.82), (0.90, 0.92), True),
        ((0.90, 0.92), (0.80, 0.82), False),
        ((0.70, 0.90), (0.72, 0.89), False),  # a lead within the error
    ],
)
def test_resnext_has_to_lead_by_more_than_the_error_over_seeds(resnet, resnext, wanted):
    rows = [
        {"network": n, "test_accuracy": v}
        for n, values in (("resnet", resnet), ("resnext", resnext))
        for v in values
    ]
    assert accuracy.test_checks(pd.DataFrame(rows))[1].passed is wanted


def block_conditions(plain, resnet):
    return pd.DataFrame(
        [
            {
                "network": network,
                "data": "digits",
                "seed": 0,
                "index": index,
                "condition": value,
                "largest": value,
            }
            for network, values in (("plain", plain), ("resnet", resnet), ("resnext", [2.0] * 3))
            for index, value in enumerate(values)
        ]
    )


def test_figure_13_wants_plain_singular_to_the_end_and_the_others_never():
    preset = quick("singularity.figure_13")
    inf = math.inf
    good = conditions.representation_checks(block_conditions([2, inf, inf], [3, 3, 3]), preset)
    assert passed(good) == [True, True, True, True]
    again = conditions.representation_checks(block_conditions([inf, inf, 2], [3, 3, 3]), preset)
    assert passed(again) == [False, True, True, True]
    bad = conditions.representation_checks(block_conditions([2, inf, inf], [3, inf, 3]), preset)
    assert passed(bad) == [True, False, True, True]
    turned = conditions.representation_checks(block_conditions([2, inf, inf], [1, 1, 1]), preset)
    assert passed(turned) == [True, True, True, False]


def test_weights_of_the_plain_network_have_to_be_the_worse_conditioned():
    preset = quick("singularity.figure_11")
    assert passed(conditions.weight_checks(block_conditions([9, 9, 9], [3, 3, 3]), preset)) == [
        True
    ]
    assert passed(conditions.weight_checks(block_conditions([2, 2, 2], [3, 3, 3]), preset)) == [
        False
    ]


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

    assert passed(curves.checks(losses(2.3), preset)) == [True, False]
    assert passed(curves.checks(losses(0.45), preset)) == [False, False]
    assert passed(curves.checks(losses(24.0), preset)) == [True, True]


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

    assert passed(layer_deletion.checks(changes(0.02), preset)) == [True, True]
    assert passed(layer_deletion.checks(changes(0.5), preset)) == [False, True]


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
    last = passed(similar_networks.checks(rivals(), preset))[-3:]
    assert last == [False, False, False]
    kept = rivals(delta_held=0.7, bare_held=0.5, dirac_held=0.9, dirac_start=0.9)
    assert passed(similar_networks.checks(kept, preset))[-3:] == [True, False, False]
    gone = rivals()
    gone = gone[gone["rival"] != "bare_held"]  # it diverged, and has no epoch
    assert passed(similar_networks.checks(gone, preset))[-3:] == [False, False, False]


def test_a_rival_within_the_error_of_its_test_images_is_not_behind():
    preset = quick("singularity.similar_networks")
    behind = passed(similar_networks.checks(rivals(resnet=0.9, plain=0.7, delta=0.89), preset))
    assert behind[:2] == [True, False]


def test_an_untrained_network_of_a_hundred_classes_stays_near_one_percent():
    preset = all_studies()["singularity.table_3"].presets["full"]
    table = accuracies(0.05, 0.99, 0.99)
    assert passed(accuracy.checks(table, preset))[:3] == [False, True, True]
    assert passed(accuracy.checks(accuracies(0.012, 0.99, 0.99), preset))[:3] == [True] * 3


def events(plain_order, residual_singular):
    """A plain run with (singularity, explosion) at these steps, and a residual one."""
    runs = (("plain", *plain_order), ("residual", residual_singular, math.nan))
    return pd.DataFrame(
        [
            {
                "skip": skip,
                "normalized": "BatchNorm",
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
    assert passed(which_came_first.checks(events(plain_order, residual_singular), preset)) == wanted
