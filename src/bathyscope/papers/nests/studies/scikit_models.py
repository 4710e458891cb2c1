"""Models with default settings: ours, and those of scikit-learn that they are compared with."""

from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifierCV, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from bathyscope import estimators
from bathyscope.papers.nests.studies.scikit_sets import Task

OURS = ("DenseNEst", "A-ResNEst", "ResNEst")

_MODELS: dict[Task, dict[str, object]] = {
    "regression": {
        "DenseNEst": estimators.DenseNEstRegressor(),
        "A-ResNEst": estimators.AugmentedResNEstRegressor(),
        "ResNEst": estimators.ResNEstRegressor(),
        "linear": LinearRegression(),
        "ridge": RidgeCV(),
        "MLP": MLPRegressor(),
        "random forest": RandomForestRegressor(),
        "gradient boosting": GradientBoostingRegressor(),
    },
    "classification": {
        "DenseNEst": estimators.DenseNEstClassifier(),
        "A-ResNEst": estimators.AugmentedResNEstClassifier(),
        "ResNEst": estimators.ResNEstClassifier(),
        "linear": LogisticRegression(max_iter=1000),
        "ridge": RidgeClassifierCV(),
        "MLP": MLPClassifier(),
        "random forest": RandomForestClassifier(),
        "gradient boosting": GradientBoostingClassifier(),
    },
}
NAMES = tuple(_MODELS["regression"])


def models(task: Task, *, seed: int, several: bool = False) -> dict[str, BaseEstimator]:
    """Unfitted models by name, seeded where they draw at random.

    Args:
        task: what is predicted.
        seed: of those that draw.
        several: whether a sample has several numbers to predict; boosting then fits each by itself.
    """
    result = {name: clone(model) for name, model in _MODELS[task].items()}
    for model in result.values():
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
    if several:
        result["gradient boosting"] = MultiOutputRegressor(result["gradient boosting"])
    return result
