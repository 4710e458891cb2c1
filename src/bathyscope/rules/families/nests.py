"""Networks of the NEst family: room for their features, and prediction weights worth having."""

from collections.abc import Iterator

from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds


def narrow_residual_space(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A ResNEst whose features cannot be read back from their sum: [W_0 … W_{L−1}] lacks rank.

    A note by itself; a warning where the batch shows that the best prediction weights lose by it.
    """
    facts = _certificate(evidence)
    needed, rank = facts.get("width_needed"), facts.get("rank")
    if needed is None or rank is None or rank >= needed:
        return
    lost = None
    if facts.get("attainable_risk") is not None:
        lost = (facts["attainable_risk"] - facts["bound"]) / facts["constant_risk"]
    severe = lost is not None and lost > thresholds["width_loss"]
    yield NARROW_RESIDUAL_SPACE.finding(
        Severity.WARNING if severe else Severity.NOTE,
        evidence.last_block,
        score=(needed - rank) / needed,
        width=facts["width"],
        rank=rank,
        features=needed,
        width_wanted=needed + facts.get("num_outputs", 0),
        fraction_of_risk_lost=lost,
    )


NARROW_RESIDUAL_SPACE = Rule(
    code="narrow-residual-space",
    stage=CausalStage.CERTIFICATE,
    cause="architecture",
    title="A ResNEst without room for its features",
    explanation="The features are added up in M dimensions and the prediction reads the sum: where [W_0 … "
    "W_{L−1}] does not have full column rank they cannot be separated in it, and the best "
    "prediction weights may miss what the features allow, or even a linear predictor.",
    source="nests, assumption 4 and section 3.2",
    advice="Widen to M = ΣK_i + N_o (i < L, the intercept counted in K_0), or take the augmented "
    "form, `nets.residual_to_augmented(model)`: it keeps the features, and needs no room.",
    reads=("certificate",),
    thresholds={
        "width_loss": Threshold(
            0.01,
            "fraction of the constant baseline's risk that a narrow ResNEst loses at its best weights",
            "below it the missing room is a note",
        )
    },
    find=narrow_residual_space,
)


def worse_than_linear(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A network that predicts the batch worse than the best linear function of its input."""
    facts = _certificate(evidence)
    if "linear_risk" not in facts or facts["linear_risk"] <= 0:
        return
    excess = facts["risk"] / facts["linear_risk"]
    reachable = facts["attainable_risk"] if facts["attainable_risk"] is not None else facts["bound"]
    if excess > thresholds["linear_excess"] and reachable < facts["risk"]:
        yield WORSE_THAN_LINEAR.finding(
            Severity.WARNING,
            evidence.last_block,
            score=excess,
            risk=facts["risk"],
            linear_risk=facts["linear_risk"],
            reachable_risk=reachable,
        )


WORSE_THAN_LINEAR = Rule(
    code="worse-than-linear",
    stage=CausalStage.CERTIFICATE,
    cause="initialization",
    title="Worse than the best linear predictor of the input",
    explanation="The output is linear in features of which the input is the first, so weights exist that "
    "are no worse than a linear model: only the prediction weights are not trained yet.",
    source="nests, corollary 2 and proposition 2",
    advice="Solve for the prediction weights on these features (`treat` does), or continue training.",
    reads=("certificate",),
    thresholds={
        "linear_excess": Threshold(
            1.0, "risk over that of the best linear predictor", "nests, corollary 2"
        )
    },
    find=worse_than_linear,
    remedies=("solve-prediction-weights",),
)


def _certificate(evidence: Evidence) -> JsonObject:
    return dict(evidence.about("certificate").values)
