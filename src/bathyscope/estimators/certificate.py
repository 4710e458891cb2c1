"""What an estimator can say of the data it was fitted on."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FitCertificate:
    """The numbers behind "no worse than linear", for the data given to `fit`.

    Risks are weighted means over the samples, in the units of the targets: squared error for
    regression, log loss for classification.

    Attributes:
        loss: "squared", "cross_entropy" or "logistic".
        num_samples: samples with a positive weight.
        risk: training risk of the estimator.
        linear_risk: training risk of the best linear predictor of the inputs.
        constant_risk: training risk of the best constant.
        bound: the least risk that any prediction weights on the learnt features could have.
        ridge: on the weights of the nonlinear features; infinity leaves the linear predictor.
        existence_ridge: λ₀ of ½λ₀ ‖A‖², A the weights of the linear part on standardised inputs,
            which estimator and linear predictor carry alike where the classes can be separated
            linearly and no minimiser exists; else 0. Validation chooses it, 0.001 at most.
        penalty, linear_penalty: that term, for each of the two.
        guaranteed: whether "no worse than linear" is a theorem for this estimator on these data.
        decided_by: the number that decided it.
        width, needed_width, rank: of a ResNEst: M, K_0 + … + K_{L−1} + N_o, rank of [W_0 … W_{L−1}].
        validation: ridge and mean validation loss of each candidate; empty if none was compared.
        scope: the data that the certificate speaks of.
    """

    loss: str
    num_samples: int
    risk: float
    linear_risk: float
    constant_risk: float
    bound: float
    ridge: float
    existence_ridge: float
    penalty: float
    linear_penalty: float
    guaranteed: bool
    decided_by: str
    width: int | None
    needed_width: int | None
    rank: int | None
    validation: tuple[tuple[float, float], ...]
    scope: str

    @property
    def epsilon(self) -> float:
        """risk − bound: what the ridge costs on the training data."""
        return self.risk - self.bound

    @property
    def no_worse_than_linear(self) -> bool:
        """Whether it is so, as measured, at the existence ridge where there is one."""
        slack = 1e-9 * self.constant_risk
        return self.risk + self.penalty <= self.linear_risk + self.linear_penalty + slack

    def __str__(self) -> str:
        """The same in words.

        Examples:
            >>> from sklearn.datasets import load_diabetes
            >>> from bathyscope.estimators import DenseNEstRegressor
            >>> X, y = load_diabetes(return_X_y=True)
            >>> print(DenseNEstRegressor(ridge=1e-3, max_epochs=5, random_state=0).fit(X, y).certificate_)
            ... # doctest: +ELLIPSIS
            No worse than linear in training: guaranteed, as the prediction weights act on ...
              risk on all data given to fit (squared): 1..., best linear 2860, best constant 5930
              ridge 0.001 on the nonlinear features; without it the risk could be 1...
        """
        verdict = "guaranteed, as" if self.guaranteed else "not guaranteed, as"
        if not self.guaranteed:
            ridge = "with the best weights on the learnt features"
        elif self.ridge == float("inf"):
            ridge = "the nonlinear features are not used (ridge ∞); with them"
        else:
            ridge = f"ridge {self.ridge:g} on the nonlinear features; without it"
        return (
            f"No worse than linear in training: {verdict} {self.decided_by}\n"
            f"  risk on {self.scope} ({self.loss}): {self.risk:.4g}, "
            f"best linear {self.linear_risk:.4g}, best constant {self.constant_risk:.4g}\n"
            f"  {ridge} the risk could be {self.bound:.4g}"
        )
