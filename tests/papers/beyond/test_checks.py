"""The checks of beyond on small made-up tables: they say yes to one, and no to another."""

import pandas as pd
import pytest

from bathyscope.papers.beyond.studies import catalog, common_cause, depth, transformers
from tests.papers.judged import passed, quick


def deep_runs(tailored, plain):
    rows = [
        {"kind": kind, "lr": lr, "seed": seed, "accuracy": value, "cosine_start": value}
        for kind, lr, values in (
            ("tailored", 0.001, tailored),
            ("plain", 0.001, plain),
            ("shortcut", 0.01, [1.0, 1.0]),
            ("normalized", 0.003, [0.2, 0.2]),
        )
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_depth_without_shortcuts_wants_every_seed():
    preset = quick("beyond.dense_digits")
    assert passed(depth.checks(deep_runs([0.95, 0.97], [0.3, 0.4]), preset)) == [True, True]
    assert passed(depth.checks(deep_runs([0.95, 0.7], [0.3, 0.4]), preset)) == [False, True]
    assert passed(depth.checks(deep_runs([0.95, 0.97], [0.95, 0.4]), preset)) == [True, False]


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

    assert passed(depth.checks(pd.concat([runs, tried(chosen)]), preset)) == [True] * 3
    result = depth.checks(pd.concat([runs, tried(chosen | {"plain": 0.01})]), preset)
    assert passed(result) == [True, True, False]
    assert result[-1].text == "3 of 4"


def test_a_quantity_that_does_not_tell_networks_apart_does_not_explain_them():
    preset = quick("beyond.common_cause")
    table = deep_runs([0.95, 0.97], [0.3, 0.4])
    table = pd.concat([table, table])
    assert passed(common_cause.checks(table, preset)) == [True]
    mixed = table.assign(cosine_start=[float(i % 2) for i in range(len(table))])
    result = common_cause.checks(mixed, preset)
    assert passed(result) == [False]
    assert result[0].text == "8 of 16"


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
                        "cosine similarity": 0.5,
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
    result = passed(transformers.checks(transformer_runs(**(SOUND | changed)), preset))
    assert result == [i != at for i in range(5)]


def catalog_runs(ranges):
    """Networks that train above those that do not, of which one quantity is as given."""
    trains = [True] * 6 + [False] * 6
    other = [float(i % 3) for i in range(12)]
    return pd.DataFrame(
        {
            "network": [f"plain-{i}" for i in range(12)],
            "normalization": [i % 2 == 0 for i in range(12)],
            "rate": 0.03,
            "accuracy": [0.9 if t else 0.2 for t in trains],
            "trains": trains,
            "gradient_range": ranges,
        }
        | {name: other for name in catalog.MEASURED if name != "gradient_range"}
    )


@pytest.mark.parametrize(
    ("ranges", "met"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0, 2.0, 3.0, 4.0, 5.0, float("inf")], True),
        (
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
            False,
        ),  # the other way round
        ([0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2], False),  # within the error
    ],
)
def test_an_explanation_across_the_catalog_orders_more_pairs_than_chance(ranges, met):
    preset = quick("beyond.catalog")
    at = catalog.MEASURED.index("gradient_range")
    judged = passed(catalog.checks(catalog_runs(ranges), preset))
    assert judged == [met and i == at for i in range(len(catalog.MEASURED))]


def test_few_networks_of_the_catalog_decide_nothing():
    few = catalog_runs([0.1] * 6 + [1.0] * 6).iloc[3:9]
    assert passed(catalog.checks(few, quick("beyond.catalog"))) == []


def test_a_group_of_which_none_trains_has_no_pairs_and_no_numbers():
    runs = catalog_runs([0.1] * 6 + [1.0] * 6)
    runs["normalization"] = runs["trains"]
    values = [c.value for c in catalog.checks(runs, quick("beyond.catalog"))][-2:]
    assert values == ["6 of 6 train", "0 of 6 train"]
