"""What the gradient of the loss asks for: ignored classes, weights, temperature, logarithms, terms."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import (
    MEASURED,
    OF_FLAT_OUTPUT,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
    problem_if,
)


def ignored_class(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Classes among the labels for which the loss never asks, other than padding."""
    asked = evidence.about("effective_targets")
    yield IGNORED_CLASS.finding(
        Severity.PROBLEM,
        score=asked.number("ignored_fraction") or 0.0,
        classes=asked.word("ignored_classes"),
        fraction_of_labels=asked.number("ignored_fraction"),
    )


IGNORED_CLASS = Rule(
    code="ignored-class",
    stage=CausalStage.LABELS,
    cause="loss",
    title="A class that the loss ignores",
    explanation="Labels of this class, which stand among the others and not only at the ends of sequences, "
    "have no gradient: ignore_index, or a weight of zero, leaves the class out, and it is never learned.",
    source="∂loss/∂output = 0 wherever the label is of this class",
    advice="Use an index for padding that is not a class, such as −100, and ignore_index=-100.",
    when=("effective_targets.ignored",),
    find=ignored_class,
)


def scrambled_outputs(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Classes that are asked for at other places than those of their labels, or axes that a reshape swaps."""
    asked = evidence.about("effective_targets")
    if shapes := evidence.about("dependence").word("swapped_axes"):
        yield SCRAMBLED_OUTPUTS.finding(Severity.PROBLEM, score=1.0, reshaped=shapes)
        return
    agreement = asked.number("agreement")
    if agreement is None or asked.number("offset") is not None:
        return
    if agreement < thresholds["agreement"]:
        yield SCRAMBLED_OUTPUTS.finding(
            Severity.PROBLEM, score=1 - agreement, labels_asked_at_their_place=agreement
        )


SCRAMBLED_OUTPUTS = Rule(
    code="scrambled-outputs",
    stage=CausalStage.LOSS,
    cause="loss",
    title="Outputs in another order than the labels",
    explanation="What the loss asks for at a position has nothing to do with the label there: features, "
    "outputs or labels were reshaped where they had to be transposed, so that each label meets the output of "
    "another position.",
    source="∂loss/∂output is smallest at the class that the loss asks for; a reshape moves nothing",
    advice="F.cross_entropy takes classes second: logits.transpose(1, 2), or logits.flatten(0, 1) with "
    "labels.flatten(); not logits.view(n, classes, length).",
    thresholds={
        "agreement": Threshold(
            0.6,
            "fraction of labels that the loss asks for at their own place, classes renamed at will",
            "1 for every loss on labels, about one over the number of classes where they are scrambled",
        )
    },
    when=("dependence.swapped_axes", When("effective_targets.agreement", below="agreement")),
    find=scrambled_outputs,
)


def frequent_classes_weigh_more(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Weights of classes that grow with their frequency."""
    asked = evidence.about("effective_targets")
    slope, correlation = asked.number("weight_slope"), asked.number("weight_correlation")
    if slope is None or correlation is None:
        return
    most, minimum = asked.number("largest_count") or 0, asked.number("smallest_count") or 1
    ranges = min(asked.number("weight_range") or 1.0, most / max(1.0, minimum))
    if ranges < 1.5 or most < thresholds["weighed_labels"]:
        return
    if slope > thresholds["weight_slope"] and correlation > thresholds["weight_correlation"]:
        yield FREQUENT_CLASSES_WEIGH_MORE.finding(
            Severity.PROBLEM,
            score=slope,
            slope_of_log_weight=slope,
            correlation=correlation,
            largest_over_smallest_weight=asked.number("weight_range"),
        )


FREQUENT_CLASSES_WEIGH_MORE = Rule(
    code="frequent-classes-weigh-more",
    stage=CausalStage.LOSS,
    cause="loss",
    title="Class weights that grow with the frequency",
    explanation="A sample of a frequent class weighs more in the loss than one of a rare class: rare "
    "classes, which the weights are meant to help, count for nothing.",
    source="the gradient of the loss at equal outputs, class by class",
    advice="Use the inverse: weight = counts.sum() / (num_classes * counts).",
    thresholds={
        "weight_slope": Threshold(
            0.3,
            "slope of log weight over log count of the classes",
            "1 where weights are frequencies, 0 without weights, −1 where they are the inverse",
        ),
        "weight_correlation": Threshold(0.8, "correlation of log weight and log count", MEASURED),
        "weighed_labels": Threshold(
            8.0,
            "labels of the most frequent class, from which frequencies in a batch are trusted",
            MEASURED,
        ),
    },
    when=(When("effective_targets.weight_slope", above="weight_slope"),),
    find=frequent_classes_weigh_more,
)


def missing_temperature(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Vectors of length 1 in a softmax that cannot fall far, however they are placed."""
    asked = evidence.about("effective_targets")
    reachable, collapsed = asked.number("reachable_loss"), asked.number("collapsed_loss")
    temperature = asked.number("temperature")
    if reachable is None or collapsed is None or temperature is None:
        return
    if reachable > thresholds["floor"] * collapsed and temperature > thresholds["temperature"]:
        yield MISSING_TEMPERATURE.finding(
            Severity.PROBLEM,
            score=reachable / collapsed,
            smallest_reachable_loss=reachable,
            loss_of_equal_vectors=collapsed,
            temperature=temperature,
        )


MISSING_TEMPERATURE = Rule(
    code="missing-temperature",
    stage=CausalStage.LOSS,
    cause="loss",
    title="Similarities of unit vectors without a temperature",
    explanation="Similarities between −1 and 1 go into a softmax as they are: even perfect vectors leave the "
    "loss near where it begins, and hard negatives weigh as much as easy ones.",
    source="softmax over n similarities in [−1, 1]: the loss falls from ln n by 1/temperature at best",
    advice="Divide the similarities by a temperature of about 0.1 before the softmax.",
    thresholds={
        "floor": Threshold(0.3, "smallest loss of unit vectors over that of equal ones", MEASURED),
        "temperature": Threshold(
            0.67,
            "temperature of the softmax, from how far unit vectors lower its loss",
            "usual ones are 0.05 to 0.5; 1 is none",
        ),
    },
    when=(When("effective_targets.temperature", above="temperature"),),
    find=missing_temperature,
)


def missing_logarithm(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss on log-probabilities that is given probabilities or logits."""
    asked = evidence.about("effective_targets")
    given = asked.word("given")
    if asked.holds("takes_logarithms") and given in ("probabilities", "logits"):
        yield MISSING_LOGARITHM.finding(
            Severity.PROBLEM,
            evidence.last_block,
            score=1.0,
            given=given,
            loss=asked.number("value"),
        )


def missing_logarithm_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """The same where the loop itself computes what it gives to the loss."""
    for name, given in record.misread_losses:
        if name in ("kl_div", "nll_loss"):
            yield MISSING_LOGARITHM.finding(Severity.PROBLEM, score=1.0, given=given, function=name)
            return


MISSING_LOGARITHM = Rule(
    code="missing-logarithm",
    stage=CausalStage.OUTPUT,
    cause="output",
    title="A loss on log-probabilities that is given something else",
    explanation="nll_loss and kl_div take log-probabilities and are linear in them: with probabilities or "
    "logits their gradient does not depend on the prediction, and the loss falls below zero.",
    source="−Σ t log p is linear in log p",
    advice="End with F.log_softmax(x, dim=1), or use F.cross_entropy on the logits.",
    when=("effective_targets.takes_logarithms",),
    find=missing_logarithm,
    find_in_loop=missing_logarithm_in_loop,
    effects=(*OF_FLAT_OUTPUT, "output-misfit", "unreachable-targets", "negated-loss"),
)


def unbalanced_terms(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A term that does not see the prediction, and outweighs those that do on the parameters they share."""
    ratio = evidence.about("effective_targets").number("outweighs")
    if ratio is not None and ratio > thresholds["outweighs"]:
        yield UNBALANCED_TERMS.finding(
            problem_if(ratio > thresholds["outweighs_severe"]),
            score=ratio,
            gradient_of_the_penalty_over_that_of_the_fit=ratio,
        )


UNBALANCED_TERMS = Rule(
    code="unbalanced-terms",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A penalty that outweighs the fit",
    explanation="A term of the loss that does not see the prediction, such as a divergence or a penalty, has "
    "a far larger gradient at the parameters that it shares with the terms that do: the network learns to "
    "please it alone. A sum beside a mean does that.",
    source="the gradient of a sum is the sum of the gradients",
    advice="Reduce both terms in the same way: sum over features and mean over samples, as in "
    "error.sum(1).mean() + divergence.sum(1).mean().",
    thresholds={
        "outweighs": Threshold(
            30.0, "gradient of the terms that do not see the prediction over the others'", MEASURED
        ),
        "outweighs_severe": Threshold(100.0, "the same, a problem", MEASURED),
    },
    when=(When("effective_targets.outweighs", above="outweighs"),),
    find=unbalanced_terms,
)


def end_never_asked(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A language model that is never asked for the end of a text, which is its padding."""
    asked = evidence.about("effective_targets")
    if how := asked.word("end_is_padding"):
        yield END_NEVER_ASKED.finding(problem_if("real" in how), score=1.0, known_because=how)


END_NEVER_ASKED = Rule(
    code="end-never-asked",
    stage=CausalStage.LABELS,
    cause="labels",
    title="The end of a text is never asked for",
    explanation="The token that pads the batch also ends the texts, and the loss leaves out all of its "
    "positions: the model never learns to stop.",
    source="∂loss/∂output is smallest at the token that the loss asks for",
    advice="Give padding a token of its own, or mask labels by the attention mask and not by the token.",
    when=("effective_targets.end_is_padding",),
    find=end_never_asked,
)


def padding_asked(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A loss much of which is about padding."""
    fraction = evidence.about("effective_targets").number("padding_asked")
    if fraction is not None and fraction > thresholds["padding_asked"]:
        yield PADDING_ASKED.finding(
            Severity.WARNING, score=fraction, fraction_of_the_loss_at_padding=fraction
        )


PADDING_ASKED = Rule(
    code="padding-asked",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Padding that counts in the loss",
    explanation="The loss asks for an answer at positions that are padding. They are learned within a few "
    "steps, so that the loss looks low, and from then on they dilute the gradient of the real ones.",
    source="∂loss/∂output is not zero at padding",
    advice="Set the labels of padding to −100, or pass ignore_index= or a mask to the loss.",
    thresholds={
        "padding_asked": Threshold(
            0.1,
            "fraction of the positions with a gradient that are padding",
            "0 where padding is left out",
        )
    },
    when=(When("effective_targets.padding_asked", above="padding_asked"),),
    find=padding_asked,
)


def detached_term(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A term of the loss that the model has made and that cannot change it."""
    for term, loss in record.constant_terms[:1]:
        yield DETACHED_TERM.finding(Severity.WARNING, score=abs(term), term=term, loss=loss)


DETACHED_TERM = Rule(
    code="detached-term",
    stage=CausalStage.LOSS,
    cause="loss",
    title="A term of the loss that has no gradient",
    explanation="It was computed from the model's output and is added to the loss, and no gradient goes "
    "through it: it changes the number that is printed, and no weight.",
    source="requires_grad of the summands of the first loss",
    advice="Leave out the detach(), item() or no_grad() on its way; a gradient penalty needs "
    "torch.autograd.grad(…, create_graph=True).",
    find_in_loop=detached_term,
)
