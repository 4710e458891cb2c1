"""Targets that cannot be learned from: constant, ignored, out of range, too large, unrelated."""

import math
from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    OF_FLAT_OUTPUT,
    OF_WRONG_SCALE,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
    problem_if,
)


def ignored_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Every class index is the one that torch leaves out."""
    facts = evidence.about("labels")
    if facts.number("ignored") == 1:
        yield IGNORED_LABELS.finding(Severity.PROBLEM, score=40.0, labels=facts.number("number"))


IGNORED_LABELS = Rule(
    code="ignored-labels",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Every label is ignored",
    explanation="The mean over no label is 0/0: the loss is NaN, and so is every gradient.",
    source="torch's ignore_index leaves out targets of −100",
    advice="Look at how labels are masked: at least one label of a batch must be a class.",
    when=("labels.ignored",),
    find=ignored_labels,
    effects=("non-finite-loss", "non-finite", "zero-gradient"),
)


def constant_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """One value for the whole batch; in a small batch that may be chance."""
    facts = evidence.about("labels")
    samples = facts.number("samples") or 0
    if evidence.about("output").holds("ignores_targets"):
        return  # they are not asked for
    if facts.number("different") == 1 and samples >= 4 and not evidence.samples_equal:
        yield CONSTANT_LABELS.finding(
            problem_if(samples >= thresholds["constant_labels"]), score=samples, labels=samples
        )


CONSTANT_LABELS = Rule(
    code="constant-labels",
    stage=CausalStage.LABELS,
    cause="labels",
    title="All labels are the same",
    explanation="A network that ignores its input predicts them all: nothing of the task can be learned.",
    source="the constant baseline has the smallest possible loss",
    advice="Look at how labels are read and shuffled; a sorted data set needs DataLoader(shuffle=True).",
    reads=("labels", "output"),
    thresholds={
        "constant_labels": Threshold(
            16.0,
            "labels that are all the same, from which it is a problem",
            "by chance in a batch of two equal classes: 2⁻¹⁵",
        )
    },
    when=(When("labels.different", among=(1,)),),
    find=constant_labels,
    effects=("poor-start", "zero-gradient"),
)


def labels_out_of_range(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Targets beyond 0 to 1 under a loss on probabilities."""
    facts = evidence.about("output")
    low, high = facts.number("smallest_target"), facts.number("largest_target")
    if low is None or high is None or facts.word("loss_asks") != "each class":
        return
    if low < 0 or high > 1:
        yield LABELS_OUT_OF_RANGE.finding(Severity.PROBLEM, score=high - low,
            smallest_target=low, largest_target=high,
        )  # fmt: skip


LABELS_OUT_OF_RANGE = Rule(
    code="labels-out-of-range",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Labels that are not probabilities",
    explanation="A loss on probabilities takes targets from 0 to 1; beyond them it is unbounded below, and "
    "the best output lies at the edge.",
    source="t log p + (1 − t) log(1 − p) is a likelihood for t in [0, 1]",
    advice="For classes 0, 1, 2, … give the network one output per class and use nn.CrossEntropyLoss; "
    "for numbers use nn.MSELoss and no activation at the end.",
    when=(When("output.smallest_target", below=0.0), When("output.largest_target", above=1.0)),
    find=labels_out_of_range,
    effects=OF_FLAT_OUTPUT,
)


def wrong_number_of_outputs(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """One output, and targets that are three or more classes by a loss on probabilities."""
    facts = evidence.about("output")
    labels, high = facts.number("num_labels") or 0, facts.number("largest_target")
    low = facts.number("smallest_target")
    one = facts.number("num_outputs") == 1 and facts.word("loss_asks") == "each class"
    if one and high is not None and low is not None and low >= 0 and high > 1 and labels > 2:
        yield WRONG_NUMBER_OF_OUTPUTS.finding(Severity.PROBLEM, evidence.last_block, score=labels,
            outputs=1, classes=labels,
        )  # fmt: skip


WRONG_NUMBER_OF_OUTPUTS = Rule(
    code="wrong-number-of-outputs",
    stage=CausalStage.LABELS,
    cause="output",
    title="Fewer outputs than classes",
    explanation="One number cannot separate several classes: they are put on a line in the order of their "
    "labels, which is arbitrary.",
    source="the predicted class is the argmax of the outputs",
    advice="Give the last layer one output per class, and use nn.CrossEntropyLoss.",
    when=(When("output.largest_target", above=1.0),),
    find=wrong_number_of_outputs,
    effects=OF_FLAT_OUTPUT,
)


def missing_classes(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Fewer than half of the outputs' classes among many labels."""
    facts, output = evidence.about("labels"), evidence.about("output")
    number, classes = facts.number("samples") or 0, output.number("num_outputs") or 0
    different = facts.number("different") or 0
    if not output.holds("index_targets") or output.word("loss_asks") != "one class":
        return
    if number >= thresholds["labels_per_class"] * classes and 1 < different <= classes / 2:
        yield MISSING_CLASSES.finding(Severity.NOTE, score=classes - different,
            classes_seen=different, outputs=classes, labels=number,
        )  # fmt: skip


MISSING_CLASSES = Rule(
    code="missing-classes",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Classes without a label in the batch",
    explanation="Outputs whose class has no label in a large batch are trained only to be small.",
    source="the expected count of a class in a batch",
    advice="Look at the labels and at the number of outputs.",
    reads=("labels", "output"),
    thresholds={
        "labels_per_class": Threshold(
            5.0, "labels per output, from which missing classes are reported", "(1 − 1/C)^5C is e⁻⁵"
        )
    },
    when=(When("labels.different", below="output.num_outputs"),),
    find=missing_classes,
)


def unscaled_targets(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Numbers to be met by a distance, far larger than what a fresh network answers."""
    facts = evidence.about("output")
    size = facts.number("target_size")
    if size is None or facts.word("loss_asks") != "distance":
        return
    reached = facts.number("largest_output") or 0.0
    if size > thresholds["target_size"] and size > 3 * reached:
        yield UNSCALED_TARGETS.finding(
            problem_if(size > thresholds["target_size_severe"]),
            evidence.last_block,
            score=decades(size),
            target_size=size,
            target_deviation=facts.number("target_deviation"),
            largest_output=reached,
        )


UNSCALED_TARGETS = Rule(
    code="unscaled-targets",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Targets far larger than an output",
    explanation="A fresh network predicts about 0 ± 1. To reach targets of this size the last layer must "
    "grow by the same factor, and until then every gradient is larger by it.",
    source="LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.5",
    advice="Standardize the targets: y = (y - y.mean()) / y.std(), and undo it on predictions.",
    thresholds={
        "target_size": Threshold(
            30.0,
            "root mean square of the targets of a distance",
            "a fresh network predicts about 0 ± 1",
        ),
        "target_size_severe": Threshold(
            1000.0, "the same, a problem", "steps of 10⁻³ take 10⁶ of them to get there"
        ),
    },
    when=(When("output.target_size", above="target_size"),),
    find=unscaled_targets,
    effects=OF_WRONG_SCALE,
    repairs=("scale-outputs",),
)


def unrelated_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Inputs and targets no more alike than shuffled ones, by the test's own deviation."""
    facts = evidence.about("labels")
    score, samples = facts.number("relation"), facts.number("samples") or 0
    if score is not None and score < thresholds["relation"] and samples >= 32:
        yield UNRELATED_LABELS.finding(Severity.NOTE, score=thresholds["relation"] - score,
            deviations_above_shuffled=score, samples=samples,
        )  # fmt: skip


def unrelated_labels_in_loop(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """The same over many batches of a loop whose loss has not fallen."""
    data = record.data
    losses = [loss for loss in record.losses if math.isfinite(loss)]
    if data.relation is None or data.related_samples < 128 or len(losses) < 64:
        return
    eighth = len(losses) // 8
    first, last = sum(losses[:eighth]) / eighth, sum(losses[-eighth:]) / eighth
    limit = thresholds["relation_in_loop"]
    if data.relation < limit and last > thresholds["loss_stays"] * first:
        yield UNRELATED_LABELS.finding(
            Severity.WARNING, score=limit - data.relation,
            deviations_above_shuffled=data.relation, samples=data.related_samples,
            loss_at_first=first, loss_at_last=last,
        )  # fmt: skip


UNRELATED_LABELS = Rule(
    code="unrelated-labels",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Targets that are independent of the inputs",
    explanation="Similar samples have no more similar targets than a random permutation would give them: "
    "in this batch there is nothing to be learned.",
    source="permutation test of ⟨A, B⟩ (Kazi-Aoual et al. 1995)",
    advice="Look for inputs and targets that were shuffled or sorted separately.",
    thresholds={
        "relation": Threshold(
            1.0,
            "standard deviations by which inputs and targets are more similar than permuted ones",
            "one standard deviation of the test itself",
        ),
        "relation_in_loop": Threshold(
            3.0,
            "the same over the batches of a loop",
            "of hundreds of samples: one in a thousand pairs without a relation lies above",
        ),
        "loss_stays": Threshold(
            0.85, "last loss over the first of a loop", "what is learned falls further in 64 steps"
        ),
    },
    when=(When("labels.relation", below="relation"),),
    find=unrelated_labels,
    find_in_loop=unrelated_labels_in_loop,
)


def flipped_targets(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Masks that fit their pictures better when they are mirrored."""
    fraction = evidence.about("labels").number("flipped")
    if fraction is not None and fraction > thresholds["flipped"]:
        yield FLIPPED_TARGETS.finding(
            Severity.PROBLEM, score=fraction, fraction_of_samples=fraction
        )


FLIPPED_TARGETS = Rule(
    code="flipped-targets",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Pictures and masks that are flipped apart",
    explanation="Mirrored, the masks explain the brightness of their pictures far better than as they stand: "
    "augmentation has flipped one of the two and not the other, or axes were swapped.",
    source="variance between the classes of a mask over that of all pixels",
    advice="Draw the flip once and apply it to both, as torchvision.transforms.v2 does for a pair.",
    thresholds={
        "flipped": Threshold(
            0.2,
            "fraction of the samples, of those whose fit says anything",
            "half of them where flips are drawn apart, none where they are not",
        )
    },
    when=(When("labels.flipped", above="flipped"),),
    find=flipped_targets,
    effects=("unrelated-labels",),
)
