"""Trees as arrays say what scikit-learn's trees say, and a far row is outside of the table."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from bathyscope.core import UsageError
from bathyscope.foresight.curve_model import read_curve_model, standard_curve_model
from bathyscope.foresight.forest import Forest
from tools.real_trainings import fit

random = np.random.default_rng(0)
ROWS = random.normal(size=(200, 5)).astype(np.float32).astype(np.float64)
ANSWERS = np.column_stack([ROWS[:, 0] > 0, ROWS[:, 1]]).astype(float)


def test_predictions_are_those_of_the_library():
    forest = fit.forest(ROWS, ANSWERS)
    same = ExtraTreesRegressor(
        fit.TREES,
        min_samples_leaf=fit.LEAF,
        max_depth=fit.DEPTH,
        max_features=0.5,
        random_state=0,
    ).fit(ROWS, ANSWERS)
    np.testing.assert_allclose(
        [forest.predict(row) for row in ROWS[:20]], same.predict(ROWS[:20]), atol=1e-5
    )


def test_contributions_sum_to_what_was_said():
    forest = fit.forest(ROWS, ANSWERS)
    row = ROWS[3]
    start = forest.value[forest.roots].mean(0)[1]
    assert forest.contributions(row, 1).sum() + start == pytest.approx(
        forest.predict(row)[1], abs=1e-6
    )
    assert np.abs(forest.contributions(row, 1)).argmax() == 1


def test_a_forest_comes_back_from_its_arrays():
    forest = fit.forest(ROWS, ANSWERS)
    again = Forest.of_arrays("f", forest.arrays("f"))
    np.testing.assert_array_equal(again.predict(ROWS[0]), forest.predict(ROWS[0]))


def test_a_row_of_the_table_is_inside_and_a_far_one_is_not():
    model = standard_curve_model()
    near = model.rows[0].astype(np.float64) * model.scale + model.center
    assert model.distance(near)[0] < 1
    assert model.distance(near + 5 * model.scale)[0] > 1


def test_a_file_of_something_else_is_refused():
    with pytest.raises(UsageError, match="is not a forecast model"):
        read_curve_model({"form": np.frombuffer(b"{}", dtype=np.uint8)})
