"""The record of a forecast: will this network train?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

from bathyscope.core.shown import Figured, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ForecastVerdict = Literal["trains", "lags", "fails", "undecided"]
FailureKind = Literal["stuck", "diverging", "slow"]
Known = int | str | list[str]
"""A fact about the calibration."""

_GAUGE = 40
"""Characters of the line from fails to trains."""

_REPORTS_GAIN = 0.5
"""Probability of a clear gain by another learning rate from which on it is reported."""

_SUREST = 0.01
"""Nearer to none or all than this no probability is reported."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast(Figured):
    """The answer of `bathyscope.forecast`.

    Attributes:
        verdict: `trains`, `lags` (it learns, and another setting would be far ahead at the end of the
            budget), `fails` (it stalls at the constant baseline, diverges or falls back) or `undecided`.
        probability: that it does not fail within the budget, by the calibrated model.
        kind: of a failure: `stuck` (nothing moves), `diverging` (the loss grows or is non-finite),
            `slow` (it falls, but too slowly for the budget); None otherwise.
        because: the three measurements that weighed most, in words and numbers.
        spent: steps that the copy took.
        budget: steps that the user means to train for.
        inside: whether the model was calibrated on networks like this one.
        outside: where not, in what this one differs.
        notes: what else a reader must know.
        calibrated_on: version, number of networks and hash of the data.
        probabilities: that it trains, lags and fails; empty where only small networks were asked.
        loss_at_budget: the loss expected at the end of the budget, the mean of its last 5 % of steps.
        interval: that holds it with a probability of 80 %.
        baseline: the constant baseline's loss; None where it is not known.
        gains: by the factor of another learning rate, `0.1` and `10`: by how much the loss at the end is
            expected to be lower with it, and the probability that this is more than a tenth of the
            baseline's.
    """

    verdict: ForecastVerdict
    probability: float
    kind: FailureKind | None
    because: tuple[str, ...]
    spent: int
    budget: int
    inside: bool
    outside: tuple[str, ...]
    notes: tuple[str, ...]
    calibrated_on: Mapping[str, Known]
    probabilities: Mapping[str, float] = field(default_factory=dict)
    loss_at_budget: float | None = None
    interval: tuple[float, float] | None = None
    baseline: float | None = None
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def chance(self) -> str:
        """The probability in words, of which a thousand networks vouch for no more than this.

        Examples:
            >>> reported = Forecast(verdict="trains", probability=0.998, kind=None, because=(), spent=8,
            ...     budget=300, inside=True, outside=(), notes=(), calibrated_on={})
            >>> reported.chance
            'over 99 %'
        """
        if self.probability < _SUREST:
            return "under 1 %"
        return "over 99 %" if self.probability > 1 - _SUREST else f"{100 * self.probability:.0f} %"

    def sentence(self) -> str:
        """The forecast in one line.

        Examples:
            >>> Forecast(verdict="fails", probability=0.02, kind="stuck", because=(), spent=8,
            ...     budget=300, inside=True, outside=(), notes=(), calibrated_on={}).sentence()
            'Within 300 steps: fails (stuck), probability of training 2 %, after 8 steps on a copy.'
        """
        kind = f" ({self.kind})" if self.kind else ""
        steps = f"{self.spent} step{'s' * (self.spent != 1)}"
        within = f"{self.budget} step{'s' * (self.budget != 1)}"
        beyond = "" if self.inside else " Nothing like this was seen in calibration."
        return (
            f"Within {within}: {self.verdict}{kind}, probability of training "
            f"{self.chance}, after {steps} on a copy.{beyond}"
        )

    def details(self) -> list[str]:
        """The loss to be expected, and what another learning rate would gain, in sentences."""
        result = []
        if self.loss_at_budget is not None and self.interval is not None:
            low, high = self.interval
            constant = (
                "" if self.baseline is None else f"; the constant baseline's is {self.baseline:.3g}"
            )
            result.append(
                f"Loss at the end: {self.loss_at_budget:.3g} (80 %: {low:.3g} to {high:.3g}){constant}."
            )
        if self.probabilities:
            said = ", ".join(f"{name} {100 * p:.0f} %" for name, p in self.probabilities.items())
            result.append(f"Probabilities: {said}.")
        # a rate that is too low and one that is too high look alike at times: only the likelier is said
        factor, (gain, probability) = max(
            self.gains.items(), key=lambda item: item[1][1], default=("", (0.0, 0.0))
        )
        if probability >= _REPORTS_GAIN and gain > 0:
            result.append(
                f"With the learning rate × {factor} the loss at the end is expected to be lower by "
                f"{gain:.3g} (a clear gain with {100 * probability:.0f} %)."
            )
        return result

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The probability on a line from fails to trains, over the reasons."""
        ax = axes_or_new(ax)
        ax.axvspan(0.0, 0.1, color="#b3261e", alpha=0.25, linewidth=0)
        ax.axvspan(0.9, 1.0, color="#2c7a3f", alpha=0.25, linewidth=0)
        ax.plot([self.probability], [0.5], marker="o", color="#1c1e21", markersize=9, clip_on=False)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_yticks([])
        ax.set_box_aspect(0.12)
        ax.set_xlabel(f"probability of training within {self.budget} steps")
        title = f"{self.verdict}{f' ({self.kind})' if self.kind else ''}: {self.chance} to train"
        ax.set_title(title, loc="left")
        return ax

    def __repr__(self) -> str:
        """One line: the sentence."""
        return f"<Forecast: {self.sentence()}>"

    def __str__(self) -> str:
        """The sentence, a line from fails to trains, and the reasons."""
        at = min(_GAUGE - 1, int(self.probability * _GAUGE))
        return "\n".join(
            (
                self.sentence(),
                f"fails |{'-' * at}●{'-' * (_GAUGE - 1 - at)}| trains",
                *self.details(),
                "\nBecause",
                *(f"  {reason}" for reason in self.because),
                *(f"Not seen in calibration: {difference}." for difference in self.outside),
                *(f"Note: {note}" for note in self.notes),
            )
        )

    def _repr_html_(self) -> str:
        """The sentence, a line from fails to trains, and the reasons, as a notebook shows them."""
        at = f"{100 * self.probability:.0f}%"
        lines = [
            *self.details(),
            *self.because,
            *(f"not seen in calibration: {o}" for o in self.outside),
            *self.notes,
        ]
        reasons = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return (
            f"<p><strong>Will it train?</strong> {escape(self.sentence())}</p>"
            f'<div role="img" aria-label="probability of training {self.chance}" style="display:flex;'
            'gap:.6em;align-items:center;max-width:30em"><small>fails</small><span style="flex:1;height:6px;'
            'position:relative;background:#8884"><i style="position:absolute;top:-4px;width:14px;'
            f'height:14px;margin-left:-7px;border-radius:7px;background:currentColor;left:{at}"></i>'
            f"</span><small>trains</small></div><ul>{reasons}</ul>"
        )
