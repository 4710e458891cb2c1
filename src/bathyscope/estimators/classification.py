"""Classification: log loss, two or more classes, or several labels per sample."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from bathyscope.estimators.base import ArrayLike, NonlinearEstimator, WithWidth
from bathyscope.estimators.fitting import FitTask
from bathyscope.estimators.forms import Augmented, Dense, Residual
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.scaling import Array

E = TypeVar("E", bound="_Classification")


class _Classification(ClassifierMixin, NonlinearEstimator):
    """What the three classifiers share."""

    _announced: npt.NDArray[np.generic] | None  # the classes given to `partial_fit`

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def decision_function(self, X: ArrayLike) -> Array:
        """Log-odds: one number per sample for two classes, one per class or label otherwise."""
        outputs = self._outputs(X)
        return outputs[:, 0] if not self._is_multilabel and outputs.shape[1] == 1 else outputs

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities, one column a class; of several labels per sample, one column a label."""
        outputs = self._outputs(X)
        if self._is_multilabel:
            each: Array = expit(outputs)
            return each
        if outputs.shape[1] == 1:
            return np.column_stack([expit(-outputs), expit(outputs)])
        result: Array = softmax(outputs, axis=1)
        return result

    def predict(self, X: ArrayLike) -> npt.NDArray[np.generic]:
        """The most probable class of each sample; of several labels, those more likely than not."""
        outputs = self._outputs(X)
        if self._is_multilabel:
            return (outputs > 0).astype(np.int64)
        if outputs.shape[1] == 1:
            return self.classes_[(outputs[:, 0] > 0).astype(np.intp)]
        result: npt.NDArray[np.generic] = self.classes_[outputs.argmax(axis=1)]
        return result

    def partial_fit(
        self: E,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> E:
        """Go on learning from more data: one pass of gradient steps over this call's samples.

        The prediction weights are solved for on this call's data where it has ten samples or more a
        weight; else they move by gradient steps only, for solving would forget the calls before.
        Inputs are standardized as by the first call. `certificate_` speaks of this call's data only.

        Args:
            X: samples by features.
            y: labels.
            classes: all that will ever be given; needed by the first call.
            sample_weight: of each sample.
        """
        if not hasattr(self, "network_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._announced = np.unique(np.asarray(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: "
                f"{self.classes_!r}"
            )
        return self._partial_fit(X, y, sample_weight)

    def fit(self: E, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> E:
        """Learn features on a part of the samples, then solve for the prediction weights on all.

        Args:
            X: samples by features.
            y: class labels, or an indicator matrix of several labels per sample.
            sample_weight: of each sample; equal if None. A weight of two is the same as two copies.
        """
        self._announced = None
        return super().fit(X, y, sample_weight)

    def _encode(
        self, y: npt.NDArray[np.generic], *, weights: Array, first: bool
    ) -> tuple[npt.NDArray[np.generic], FitTask]:
        check_classification_targets(y)
        multilabel = type_of_target(y) == "multilabel-indicator"
        if not multilabel:
            y = column_or_1d(y, warn=True)
        if first:
            self._is_multilabel = multilabel
            self.classes_ = self._classes(y, weights)
        if self._is_multilabel:
            return y.astype(np.float64), FitTask("logistic", len(self.classes_))
        unseen = np.setdiff1d(y, self.classes_)
        if len(unseen) and weights[np.isin(y, unseen)].any():
            raise ValueError(f"y has classes that were not announced: {unseen.tolist()}")
        codes = np.searchsorted(self.classes_, y)
        count = len(self.classes_)
        return codes, FitTask("logistic", 1) if count == 2 else FitTask("cross_entropy", count)

    def _classes(self, y: npt.NDArray[np.generic], weights: Array) -> npt.NDArray[np.generic]:
        """The classes announced, or those of the samples that count."""
        if self._is_multilabel:
            return np.arange(y.shape[1])
        classes = np.unique(y[weights > 0]) if self._announced is None else self._announced
        if len(classes) < 2:
            raise ValueError(
                "Classifier can't train when only one class is present: the data contain only "
                f"the class {classes.tolist()}."
            )
        return classes

    def _scaled_targets(self, samples: Samples, *, first: bool) -> Samples:
        return samples

    def _target_units(self) -> Array | None:
        return None


class DenseNEstClassifier(_Classification):
    """Classification by a DenseNEst: never worse than the best linear classifier in training log loss.

    Parameters and attributes as for `DenseNEstRegressor`; `classes_` holds the class labels. Two
    classes are predicted by one output, several by as many, and an indicator matrix of labels by
    one output per label. Where the classes can be separated linearly, no best linear classifier
    exists: both are then taken at the small ridge `certificate_.existence_ridge` that validation chose.

    Examples:
        >>> from sklearn.datasets import make_moons
        >>> X, y = make_moons(200, noise=0.2, random_state=0)
        >>> model = DenseNEstClassifier(max_epochs=30, random_state=0).fit(X, y)
        >>> model.certificate_.guaranteed, model.certificate_.no_worse_than_linear
        (True, True)
    """

    _form = Dense()


class AugmentedResNEstClassifier(WithWidth, _Classification):
    """Classification by an augmented ResNEst: never worse than linear in training log loss.

    Parameters and attributes as for `DenseNEstClassifier`, and `width` as for
    `AugmentedResNEstRegressor`.
    """

    _form = Augmented()


class ResNEstClassifier(WithWidth, _Classification):
    """Classification by a ResNEst: never worse than linear in training log loss if wide enough.

    Parameters and attributes as for `DenseNEstClassifier`, and `width` as for `ResNEstRegressor`.
    """

    _form = Residual()
