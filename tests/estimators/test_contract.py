"""scikit-learn's own contract, for all six."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bathyscope.estimators import (
    AugmentedResNEstClassifier,
    AugmentedResNEstRegressor,
    DenseNEstClassifier,
    DenseNEstRegressor,
    ResNEstClassifier,
    ResNEstRegressor,
)

SIX = [
    AugmentedResNEstClassifier,
    AugmentedResNEstRegressor,
    DenseNEstClassifier,
    DenseNEstRegressor,
    ResNEstClassifier,
    ResNEstRegressor,
]


@parametrize_with_checks([kind(max_epochs=3, num_blocks=2, block_size=4) for kind in SIX])
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([kind() for kind in SIX])
def test_contract_with_default_settings(estimator, check):
    check(estimator)
