"""The comparison of estimators: sets and models as reported, and checks that can fail."""

import numpy as np
import pandas as pd
import pytest

from bathyscope.papers.nests.studies import estimators
from bathyscope.papers.nests.studies.scikit_models import NAMES, OURS, models
from bathyscope.papers.nests.studies.scikit_sets import SETS


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_drawn_by_its_seed_and_has_its_task(name):
    kept = SETS[name]
    X, y = kept.load(0)
    assert len(X) == len(y)
    assert np.ndim(y) == 1
    assert (len(np.unique(y)) <= 10) == (kept.task == "classification") or name == "linnerud"
    assert np.array_equal(X, kept.load(0)[0])
    assert np.array_equal(X, kept.load(1)[0]) != kept.generated


def test_models_that_draw_at_random_are_seeded():
    for task in ("regression", "classification"):
        result = models(task, seed=7)
        assert tuple(result) == NAMES
        seeded = [n for n, m in result.items() if m.get_params().get("random_state") == 7]
        assert {*OURS, "MLP", "random forest", "gradient boosting"} <= set(seeded)


def test_one_comparison_has_a_row_a_model():
    rows = list(estimators.Scores(set="iris", num_samples=60, seed=0).rows())
    assert [row["model"] for row in rows] == list(NAMES)
    assert all(row["score"] > 0.6 for row in rows)
    assert all(row["no_worse_than_linear"] for row in rows if row["model"] in OURS)


def scores_table(ours):
    """All models score 0.8 but ours, everywhere."""
    rows = [
        {
            "set": name,
            "seed": 0,
            "model": model,
            "score": ours if model in OURS else 0.8,
            "no_worse_than_linear": True if model in OURS else None,
            "rank": 1.0,
        }
        for name in SETS
        for model in NAMES
    ]
    return pd.DataFrame(rows)


def test_the_figure_has_a_cell_for_every_set_and_model():
    figure = estimators.draw(scores_table(0.9), estimators.EstimatorPreset())
    assert len(figure.axes[0].texts) == len(SETS) * len(NAMES)


def test_checks_are_met_by_better_scores_and_missed_by_worse():
    better = estimators.checks(scores_table(0.9), estimators.EstimatorPreset())
    assert all(check.passed is not False for check in better)
    worse = estimators.checks(scores_table(0.7), estimators.EstimatorPreset())
    assert sum(check.passed is False for check in worse) == 9, "three for each of ours"
