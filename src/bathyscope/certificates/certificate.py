"""The record of what is known about a network of the family on given data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from bathyscope.certificates.linear import LinearPrediction
from bathyscope.certificates.saddle import CriticalPoint
from bathyscope.certificates.width import Width
from bathyscope.core.records import Assumption

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Predictability:
    """How linearly predictable a feature is from those before it   (nests, section 2.4).

    `unpredicted` is the fraction of the feature's variance that they leave; a feature with no
    `new_directions` cannot improve the prediction.
    """

    size: int
    new_directions: int
    unpredicted: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """Risks, bounds and guarantees of a network on data.

    Risks are means over the samples. Where the loss has no minimizer over the features, `ridge` is
    positive and every risk but `risk` itself includes ½ · ridge · mean ‖ŷ‖²; `penalty` is that term
    for the network.

    Attributes:
        risk: of the network.
        constant_risk: of the best constant prediction.
        linear: the best linear predictor of the input, on images of all pixels, at a ridge of its
            own; None where there are too many to form it.
        linear_is_exact: whether it was solved for to 1e-9 of the constant predictor's risk.
        linear_feature_risk: of the best predictor linear in the feature v_0, which is the input, or
            on images the pooled input; None outside the family.
        bound: of the best predictor linear in the network's features, the augmented form
            (proposition 2); None outside the family.
        bound_applies: whether no choice of prediction weights can bring the network below it: not
            where the convex problem was not solved, nor where convolutions act before pooling.
        epsilon: risk + penalty − bound   (equation 6).
        gap, gradient_norm: how exactly the bound is known; None outside the family.
        attainable_risk: the infimum over the prediction weights of a ResNEst (problem P_φ); None
            where it was not solved for.
        block_risks: with re-optimized prediction weights after blocks 0, …, L; never rising.
        truncated_risks: with the weights of the bound, those after block i set to zero (equation 7
            read literally); these may rise.
        guaranteed: whether every local minimum attains the bound, by the assumptions found.
        decided_by: the number that decided it.
    """

    network: str
    loss: str
    num_samples: int
    num_outputs: int
    on_images: bool
    risk: float
    penalty: float
    constant_risk: float
    linear: LinearPrediction | None
    linear_is_exact: bool
    linear_feature_risk: float | None
    bound: float | None
    bound_applies: bool
    epsilon: float | None
    ridge: float
    gap: float | None
    gradient_norm: float | None
    attainable_risk: float | None
    block_risks: tuple[float, ...]
    truncated_risks: tuple[float, ...]
    predictability: tuple[Predictability, ...]
    width: Width | None
    assumptions: tuple[Assumption, ...]
    critical_point: CriticalPoint | None
    guaranteed: bool
    decided_by: str
    notes: tuple[str, ...]

    @property
    def attainable_epsilon(self) -> float | None:
        """What ε would be at the best prediction weights of a ResNEst: 0 by theorem 1."""
        if self.attainable_risk is None or self.bound is None:
            return None
        return self.attainable_risk - self.bound

    @property
    def linear_risk(self) -> float | None:
        """Risk of the best linear predictor of the input; None where it was not formed."""
        return None if self.linear is None else self.linear.risk

    @property
    def no_worse_than_linear(self) -> bool | None:
        """Whether the network itself, as it stands, is no worse than the best linear predictor.

        Of the whole input, both compared at the ridge of the latter; None where that is not known.
        """
        if self.linear is None:
            return None
        slack = 1e-9 * self.constant_risk
        no_worse = self.risk + self.linear.penalty <= self.linear.risk + slack
        return None if no_worse and not self.linear_is_exact else no_worse

    @property
    def monotone(self) -> bool:
        """Whether the re-optimized risk never rises from block to block."""
        slack = 1e-9 * self.constant_risk
        pairs = zip(self.block_risks, self.block_risks[1:], strict=False)
        return all(after <= before + slack for before, after in pairs)

    def assumption(self, number: int) -> Assumption | None:
        """Assumption 1, 2, 3 or 4 as it was found; None where it does not speak of this network."""
        start = f"Assumption {number}:"
        return next((a for a in self.assumptions if a.statement.startswith(start)), None)

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON; directions and infinities are left out."""
        point = self.critical_point
        return {
            **{name: _finite(getattr(self, name)) for name in _PLAIN},
            "linear": None if self.linear is None else _fields(self.linear),
            "attainable_epsilon": self.attainable_epsilon,
            "no_worse_than_linear": self.no_worse_than_linear,
            "monotone": self.monotone,
            "block_risks": list(self.block_risks),
            "truncated_risks": list(self.truncated_risks),
            "predictability": [_fields(p) for p in self.predictability],
            "width": None
            if self.width is None
            else {
                **_fields(self.width),
                "bottleneck_condition": self.width.bottleneck_condition,
                "features_recoverable": self.width.features_recoverable,
            },
            "assumptions": [
                {"statement": a.statement, "holds": a.holds, "value": a.value}
                for a in self.assumptions
            ],
            "critical_point": None
            if point is None
            else {k: v for k, v in _fields(point).items() if k != "direction"},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{self.network}, {self.loss} loss, {self.num_samples} samples"]
        rows: list[tuple[str, float | None]] = [
            ("risk of the network", self.risk),
            ("best constant", self.constant_risk),
            ("best linear predictor of the input", self.linear_risk),
            *([("… of the pooled input", self.linear_feature_risk)] if self.on_images else []),
            (
                "lower bound (best on its features)"
                if self.bound_applies
                else "best found on its features, no bound",
                self.bound,
            ),
            ("… gap of that problem", self.gap),
            ("ε = risk − bound", self.epsilon if self.bound_applies else None),
            ("attainable by its prediction weights", self.attainable_risk),
        ]
        lines += [f"  {name:<38}{value:.6g}" for name, value in rows if value is not None]
        if len(self.block_risks) > 1:
            risks = " ".join(f"{risk:.4g}" for risk in self.block_risks)
            lines.append(f"  {'re-optimized after blocks 0 to L':<38}{risks}")
        lines += [f"  {_mark(a.holds)} {a.statement}" for a in self.assumptions]
        if self.critical_point is not None:
            point = self.critical_point
            lines.append(
                f"  prediction weights: {point.kind} (gradient {point.gradient_norm:.2g}, "
                f"smallest curvature {point.smallest_curvature:.2g})"
            )
        lines.append(f"  guaranteed: {'yes' if self.guaranteed else 'no'}; {self.decided_by}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


_PLAIN = (
    "network",
    "loss",
    "num_samples",
    "num_outputs",
    "on_images",
    "risk",
    "penalty",
    "constant_risk",
    "linear_risk",
    "linear_is_exact",
    "linear_feature_risk",
    "bound",
    "bound_applies",
    "epsilon",
    "ridge",
    "gap",
    "gradient_norm",
    "attainable_risk",
    "guaranteed",
    "decided_by",
)


def _fields(record: "DataclassInstance") -> Mapping[str, object]:
    return {field.name: _finite(getattr(record, field.name)) for field in fields(record)}


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mark(holds: bool) -> str:
    return "✓" if holds else "✗"
