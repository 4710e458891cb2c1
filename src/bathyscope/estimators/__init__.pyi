from bathyscope.estimators.base import GuaranteeWarning as GuaranteeWarning
from bathyscope.estimators.classification import (
    AugmentedResNEstClassifier as AugmentedResNEstClassifier,
)
from bathyscope.estimators.classification import DenseNEstClassifier as DenseNEstClassifier
from bathyscope.estimators.classification import ResNEstClassifier as ResNEstClassifier
from bathyscope.estimators.regression import AugmentedResNEstRegressor as AugmentedResNEstRegressor
from bathyscope.estimators.regression import DenseNEstRegressor as DenseNEstRegressor
from bathyscope.estimators.regression import ResNEstRegressor as ResNEstRegressor
