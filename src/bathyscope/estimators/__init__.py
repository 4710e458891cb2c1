"""scikit-learn estimators over nonlinear estimators: never worse than linear in training, certified."""

from bathyscope.estimators.base import GuaranteeWarning
from bathyscope.estimators.certificate import FitCertificate
from bathyscope.estimators.classification import (
    AugmentedResNEstClassifier,
    DenseNEstClassifier,
    ResNEstClassifier,
)
from bathyscope.estimators.regression import (
    AugmentedResNEstRegressor,
    DenseNEstRegressor,
    ResNEstRegressor,
)

__all__ = [
    "AugmentedResNEstClassifier",
    "AugmentedResNEstRegressor",
    "DenseNEstClassifier",
    "DenseNEstRegressor",
    "FitCertificate",
    "GuaranteeWarning",
    "ResNEstClassifier",
    "ResNEstRegressor",
]
