"""What an estimator can say of the data it was fitted on."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bathyscope.core.shown import Figured, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDING = 1e-9  # of the best constant's risk
_FEW = (
    5  # samples an input, below which least squares without a penalty are a poor guess of new data
)


@dataclass(frozen=True, kw_only=True, repr=False)
class FitCertificate(Figured):
    """The numbers behind "no worse than linear", for the data given to `fit`.

    Risks are weighted means over the samples, in the units of the targets: squared error for
    regression, log loss for classification. Linear means without a penalty: least squares, or the
    log loss alone where the classes cannot be separated.

    Attributes:
        loss: "squared", "cross_entropy" or "logistic".
        num_samples: samples with a positive weight.
        num_inputs: columns of the inputs.
        risk: training risk of the estimator.
        linear_risk: training risk of the best linear predictor of the inputs.
        constant_risk: training risk of the best constant.
        bound: the smallest risk that any prediction weights on the learned features could have.
        ridge: on the weights of the nonlinear features; infinity leaves the linear predictor.
        existence_ridge: λ₀ of ½λ₀ ‖A‖², A the weights of the linear part on standardized inputs,
            which estimator and linear predictor carry alike where the classes can be separated
            linearly and no minimizer exists; else 0. Validation chooses it, 0.001 at most.
        penalty, linear_penalty: that term, for each of the two.
        guaranteed: whether "no worse than linear" is a theorem for this estimator on these data.
        decided_by: the number that decided it.
        width, needed_width, rank: of a ResNEst: M, K_0 + … + K_{L−1} + N_o, rank of [W_0 … W_{L−1}].
        validation: ridge and mean validation loss of each candidate, of standardized targets; empty if
            none was compared.
        scope: the data that the certificate speaks of.
    """

    loss: str
    num_samples: int
    num_inputs: int
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
        """Whether it is so, as measured, at the existence ridge where there is one.

        Up to rounding: a billionth of the best constant's risk.
        """
        slack = _ROUNDING * self.constant_risk
        return self.risk + self.penalty <= self.linear_risk + self.linear_penalty + slack

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Training risks as bars: best constant, best linear predictor, the estimator, it without ridge."""
        ax = axes_or_new(ax)
        risks = {
            "best constant": self.constant_risk,
            "best linear": self.linear_risk,
            "estimator": self.risk,
            "without ridge": self.bound,
        }
        colors = ["#9aa1a9", "#9aa1a9", "#0a7bbd", "#2c7a3f"]
        bars = ax.barh(list(risks), list(risks.values()), color=colors)
        ax.bar_label(bars, fmt="%.4g", padding=3, size=8)
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_xlabel(f"training risk ({self.loss})")
        ax.set_title(str(self).partition(", as")[0], loc="left", size=10)
        return ax

    def __repr__(self) -> str:
        """One line: whether it is guaranteed, and the risks."""
        guarantee = "guaranteed" if self.guaranteed else "not guaranteed"
        return (
            f"<FitCertificate: no worse than linear {guarantee}; risk {self.risk:.4g}, "
            f"best linear {self.linear_risk:.4g}>"
        )

    def _repr_html_(self) -> str:
        """The same as a notebook shows it."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        """The same in words.

        Examples:
            >>> from sklearn.datasets import load_diabetes
            >>> from bathyscope.estimators import DenseNEstRegressor
            >>> X, y = load_diabetes(return_X_y=True)
            >>> print(DenseNEstRegressor(ridge=1e-3, max_epochs=5, random_state=0).fit(X, y).certificate_)
            ... # doctest: +ELLIPSIS
            No worse than linear in training: guaranteed, as the linear predictor is among ...
              risk on all data given to fit (squared): 1..., best linear 2860, best constant 5930
              ridge 0.001 on the nonlinear features; without it the training risk could be 1...
        """
        verdict = "guaranteed, as" if self.guaranteed else "not guaranteed, as"
        if not self.guaranteed:
            ridge = "with the best weights on the learned features"
        elif self.ridge == float("inf"):
            ridge = "the nonlinear features are not used (ridge ∞); with them"
        else:
            ridge = f"ridge {self.ridge:g} on the nonlinear features; without it"
        return (
            f"No worse than {self._linear_model} in training: {verdict} {self.decided_by}\n"
            f"  risk on {self.scope} ({self.loss}): {self.risk:.4g}, "
            f"best linear {self.linear_risk:.4g}, best constant {self.constant_risk:.4g}\n"
            f"  {ridge} the training risk could be {self.bound:.4g}"
        ) + "".join(f"\n  {sentence}" for sentence in self._cautions())

    @property
    def _linear_model(self) -> str:
        if not self.existence_ridge:
            return "linear"
        inverse = 1 / (self.num_samples * self.existence_ridge)
        return (
            f"the linear classifier with ridge {self.existence_ridge:g} "
            f"(LogisticRegression(C={inverse:.3g}) on standardized inputs)"
        )

    def _cautions(self) -> Iterator[str]:
        if self.existence_ridge:
            yield "the classes can be separated: with a weaker ridge any linear classifier's loss is lower"
        if self.linear_risk <= _ROUNDING * self.constant_risk:
            yield "a linear predictor fits these samples exactly, so that this says nothing of new ones"
        elif self.num_samples < _FEW * self.num_inputs:
            yield (
                f"{self.num_samples} samples for {self.num_inputs} inputs are few: a linear model with "
                "a penalty (Ridge) can be far better on new data"
            )
