"""Regression: squared loss, one or several outputs."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from bathyscope.estimators.base import ArrayLike, NonlinearEstimator, WithWidth
from bathyscope.estimators.fitting import FitTask
from bathyscope.estimators.forms import Augmented, Dense, Residual
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.scaling import Array, Scaling

E = TypeVar("E", bound="_Regression")


class _Regression(RegressorMixin, NonlinearEstimator):
    """What the three regressors share."""

    def predict(self, X: ArrayLike) -> Array:
        """Predicted targets, of the shape that `fit` was given."""
        outputs = self._outputs(X)
        values = self.target_scaling_.invert(outputs)
        return values[:, 0] if self._is_single else values

    def partial_fit(
        self: E, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> E:
        """Go on learning from more data: one pass of gradient steps over this call's samples.

        The prediction weights are solved for on this call's data where it has ten samples or more a
        weight; else they move by gradient steps only, for solving would forget the calls before.
        Inputs are standardized as by the first call. `certificate_` speaks of this call's data only.
        """
        return self._partial_fit(X, y, sample_weight)

    def _encode(
        self, y: npt.NDArray[np.generic], *, weights: Array, first: bool
    ) -> tuple[npt.NDArray[np.generic], FitTask]:
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        Y = y.astype(np.float64).reshape(len(y), -1)
        if first:
            self._is_single = y.ndim == 1
            self.n_outputs_ = Y.shape[1]
        elif Y.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {Y.shape[1]} outputs, but {self.n_outputs_} were fitted.")
        return Y, FitTask("squared", Y.shape[1])

    def _validate(
        self, X: ArrayLike, y: ArrayLike, *, first: bool
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
        X, y = super()._validate(X, y, first=first)
        if y.dtype.kind == "O":
            y = y.astype(np.float64)
        return X, y

    def _scaled_targets(self, samples: Samples, *, first: bool) -> Samples:
        Y = samples.Y.astype(np.float64)
        if first:
            self.target_scaling_ = Scaling.of(Y, samples.weights)
        return Samples(samples.X, self.target_scaling_.apply(Y), samples.weights)

    def _target_units(self) -> Array | None:
        scale = self.target_scaling_.scale
        return np.where(np.isinf(scale), 0.0, scale)


class DenseNEstRegressor(_Regression):
    """Regression by a DenseNEst: never worse than the best linear predictor on the training data.

    The network learns nonlinear features of the standardized inputs by gradient steps on a part of
    the samples; then the weights of all features, the linear one included, are solved for in
    float64 on all samples. A ridge chosen by validation acts on the weights of the nonlinear
    features only, so that at every ridge the training risk is at most the best linear predictor's
    (nests, proposition 3), which is what an infinite ridge leaves.

    Args:
        num_blocks: L.
        block_size: features that each block adds.
        training: all blocks at once ("joint") or one after the other ("blockwise").
        ridge: on the weights of the nonlinear features, in units of the mean loss and of the
            features' standard deviations; "auto" chooses by validation among 10^−6, …,
            10^−1, 1 and `inf`, which leaves the linear predictor.
        learning_rate: of AdamW.
        batch_size: "auto" is a twentieth of the samples, between 16 and 256.
        max_epochs: at most this many passes over the samples (for each block, if blockwise).
        early_stopping: stop when the validation loss has not improved for `patience` epochs.
        patience: see `early_stopping`.
        validation_fraction: of the samples, held out while features are learned.
        random_state: a seed makes the fit reproducible.
        verbose: show a progress bar.

    Attributes:
        certificate_: a `FitCertificate`: training risk, best linear risk, bound, guarantee.
        network_: the fitted network, in float64, on standardized inputs.
        ridge_: the ridge used.
        history_: validation loss after each epoch.

    Examples:
        >>> from sklearn.datasets import make_friedman1
        >>> X, y = make_friedman1(200, random_state=0)
        >>> model = DenseNEstRegressor(max_epochs=20, random_state=0).fit(X, y)
        >>> model.certificate_.guaranteed
        True
        >>> model.certificate_.no_worse_than_linear
        True
    """

    _form = Dense()


class AugmentedResNEstRegressor(WithWidth, _Regression):
    """Regression by an augmented ResNEst: never worse than linear on the training data.

    Parameters and attributes as for `DenseNEstRegressor`, and `width`: M, the size of the residual
    space in which features are summed up (None: K_0 + … + K_{L−1}). The guarantee does not depend
    on it (nests, proposition 2).
    """

    _form = Augmented()


class ResNEstRegressor(WithWidth, _Regression):
    """Regression by a ResNEst: never worse than linear on the training data if it is wide enough.

    Parameters and attributes as for `DenseNEstRegressor`, and `width`: M, the size of the residual
    space. None takes K_0 + … + K_{L−1} + N_o, the intercept counted in K_0, and the rank of
    [W_0 … W_{L−1}] is verified after training (nests, theorem 1 and corollary 2). With a smaller
    width the estimator is fitted, warns, and `certificate_.guaranteed` is False.
    """

    _form = Residual()
