"""Inputs that are never read, blank, not scaled, repeated, or read in the wrong order of their axes."""

from collections.abc import Iterator
from dataclasses import replace

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import (
    MEASURED,
    OF_WRONG_SCALE,
    CausalStage,
    Rule,
    Threshold,
    Thresholds,
    When,
)


def unread_input(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Tokens, pixels or columns without a gradient; where it fades over time another rule has it."""
    facts = evidence.about("dependence")
    fraction = facts.number("unread") or 0.0
    if not fraction or facts.holds("unread_fades"):
        return
    severe = fraction > thresholds["unread"]
    table = facts.word("unread_kind") == "table"
    if severe or table:
        yield UNREAD_INPUT.finding(
            Severity.PROBLEM if severe else Severity.NOTE,
            score=fraction,
            fraction_unread=fraction,
            input=facts.word("unread_name"),
            kind=facts.word("unread_kind"),
            first_unread=facts.word("unread_positions"),
        )


UNREAD_INPUT = Rule(
    code="unread-input",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="Input that is never read",
    explanation="No output changes with these tokens, pixels or columns, for any sample: an index, a slice "
    "or a stride leaves them out, or only one step of a sequence is used.",
    source="∂output/∂input = 0",
    advice="Look for slices and strides in forward(), and for the axis along which a recurrent layer runs "
    "(batch_first).",
    thresholds={
        "unread": Threshold(
            0.25, "fraction of the tokens, pixels or columns that no output reads", MEASURED
        )
    },
    when=("dependence.unread",),
    find=unread_input,
)


def interleaved_channels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Pixels C apart along a row that are more alike than neighbors, in images of C channels."""
    facts = evidence.about("dependence")
    yield INTERLEAVED_CHANNELS.finding(
        Severity.PROBLEM,
        score=1 / max(1e-6, facts.number("channel_period") or 1.0),
        channels=facts.number("channels"),
        difference_at_that_distance_over_neighbors=facts.number("channel_period"),
    )


INTERLEAVED_CHANNELS = Rule(
    code="interleaved-channels",
    stage=CausalStage.INPUT,
    cause="input",
    title="Channels that are read as pixels",
    explanation="Along a row of the image, pixels as far apart as there are channels are more alike than "
    "neighbors: (height, width, channels) was reshaped to (channels, height, width), which puts the colors "
    "of one pixel beside each other.",
    source="differences within a picture grow with the distance",
    advice="Permute the axes: image.permute(2, 0, 1) in place of view or reshape.",
    when=("dependence.interleaved",),
    find=interleaved_channels,
)


def norm_over_wrong_axis(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch norm that averages over an axis along which scales differ, and not over the other."""
    facts = evidence.about("dependence")
    over, along = facts.number("norm_other_range"), facts.number("norm_channel_range")
    if over is None or along is None:
        return
    if over > thresholds["norm_other_range"] and along < thresholds["norm_channel_range"]:
        yield NORM_OVER_WRONG_AXIS.finding(
            Severity.PROBLEM,
            score=over / along,
            range_along_the_averaged_axis=over,
            range_along_the_channels=along,
        )


NORM_OVER_WRONG_AXIS = Rule(
    code="norm-over-wrong-axis",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="A norm that averages over features of different scales",
    explanation="nn.BatchNorm1d takes the second of three axes for the channels. Here the scales differ "
    "along the third, and are the same along the second: small features vanish beside large ones.",
    source="one mean and one variance for values of different scales",
    advice="Put the features second: norm(x.transpose(1, 2)).transpose(1, 2), or normalize them by "
    "themselves.",
    thresholds={
        "norm_other_range": Threshold(
            10.0,
            "largest over smallest root mean square along the axis that a batch norm averages over",
            "a feature of a tenth of the size has a hundredth of the variance",
        ),
        "norm_channel_range": Threshold(
            3.0, "the same along the axis that it takes for channels, which hardly differ", MEASURED
        ),
    },
    when=(When("dependence.norm_other_range", above="norm_other_range"),),
    find=norm_over_wrong_axis,
)


# Samples from which on their cosine similarity says something; columns up to which a table is not a picture.
_FEWEST, _MOST_COLUMNS = 8, 32


def blank_input(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch of zeros."""
    facts = evidence.about("inputs")
    yield BLANK_INPUT.finding(Severity.PROBLEM, score=40.0, samples=facts.number("samples"))


BLANK_INPUT = Rule(
    code="blank-input",
    stage=CausalStage.INPUT,
    cause="input",
    title="Inputs that are all zero",
    explanation="Every sample is the same blank one: nothing can be learned from it but the class "
    "frequencies.",
    source="a network is a function of its input",
    advice="Look at how the batch is made: an empty buffer, a scaling by an integer division, a mask.",
    when=("inputs.zero",),
    find=blank_input,
    effects=(*OF_WRONG_SCALE, "equal-samples", "flat-start"),
)


def unscaled_input(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Values far from unit size or from zero, or columns of very different size; a norm first heals all."""
    facts = evidence.about("inputs")
    largest, spread = facts.number("largest"), facts.number("column_range")
    if largest is None or spread is None or _normalizes_first(evidence):
        return
    limit = thresholds["input_size"]
    uneven = spread > thresholds["column_range"] and largest > limit / 3
    offset = facts.number("offset") or 0.0
    is_tiny = 0 < largest < thresholds["input_smallness"]
    if largest > limit or uneven or is_tiny or offset > thresholds["input_offset"]:
        finding = UNSCALED_INPUT.finding(
            Severity.WARNING,
            evidence.labels([0]),
            score=max(decades(largest), decades(max(1.0, offset))),
            largest=largest,
            deviation=facts.number("deviation"),
            column_range=spread,
            wide_column=facts.number("wide_column"),
            narrow_column=facts.number("narrow_column"),
            offset_over_deviation=offset if offset > thresholds["input_offset"] else None,
            input=facts.word("larger_input"),
        )
        known = {name: value for name, value in finding.evidence.items() if value is not None}
        yield replace(finding, evidence=known)


UNSCALED_INPUT = Rule(
    code="unscaled-input",
    stage=CausalStage.INPUT,
    cause="input",
    title="Inputs that were never scaled",
    explanation="Initializers and learning rates are made for inputs of about unit size. Far smaller ones "
    "drown in the biases. Larger ones make the first layer's output and gradient larger by the same factor, "
    "a column far larger than the others hides them, and an offset far above the deviation makes all samples "
    "look alike.",
    source="LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.3",
    advice="Standardize every column: x = (x - x.mean(0)) / x.std(0), with the training set's "
    "numbers; divide images of bytes by 255.",
    thresholds={
        "input_size": Threshold(
            30.0,
            "largest absolute value of the inputs",
            "standardized inputs rarely pass 10; bytes reach 255",
        ),
        "column_range": Threshold(
            100.0,
            "largest standard deviation of an input column over the smallest",
            "a learning rate that suits one column is off by the square of this for the other",
        ),
        "input_smallness": Threshold(
            0.02,
            "largest absolute value of the inputs, below which they were scaled down too far",
            "bytes divided by 255 twice reach 0.004",
        ),
        "input_offset": Threshold(
            30.0,
            "|mean| of a column over its deviation, the median over columns",
            "the curvature along the offset is this squared times that along the deviation; raw pictures "
            "have about 1",
        ),
    },
    when=(
        When("inputs.largest", above="input_size"),
        When("inputs.largest", below="input_smallness"),
        When("inputs.column_range", above="column_range"),
        When("inputs.offset", above="input_offset"),
    ),
    find=unscaled_input,
    effects=OF_WRONG_SCALE,
    repairs=("standardize-inputs",),
)


def constant_columns(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Columns of a table with one value for the whole batch."""
    facts = evidence.about("inputs")
    number, columns = facts.number("constant_columns"), facts.number("columns")
    if number and columns and _is_telling_table(evidence):
        yield CONSTANT_COLUMNS.finding(Severity.NOTE, score=number / columns,
            constant_columns=number, columns=columns,
        )  # fmt: skip


CONSTANT_COLUMNS = Rule(
    code="constant-columns",
    stage=CausalStage.INPUT,
    cause="input",
    title="Constant input columns",
    explanation="A column with one value for the whole batch carries no information, and standardizing "
    "divides it by zero.",
    source="the standard deviation of a constant is zero",
    advice="Leave the columns out, or look at how they are made.",
    when=("inputs.constant_columns",),
    find=constant_columns,
)


def repeated_columns(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Columns of a table that equal another one in every sample; many such are worth a look."""
    facts = evidence.about("inputs")
    number, columns = facts.number("repeated_columns"), facts.number("columns")
    if number and columns and _is_telling_table(evidence):
        many = number / columns > thresholds["repeated_columns"]
        yield REPEATED_COLUMNS.finding(Severity.WARNING if many else Severity.NOTE,
            score=number / columns, repeated_columns=number, columns=columns,
        )  # fmt: skip


REPEATED_COLUMNS = Rule(
    code="repeated-columns",
    stage=CausalStage.INPUT,
    cause="input",
    title="Duplicate input columns",
    explanation="A column that equals another in every sample adds no information: its weight counts "
    "twice, and training cannot separate the two.",
    source="the covariance of equal columns is singular",
    advice="Leave the copies out, or look at how the columns are made.",
    thresholds={
        "repeated_columns": Threshold(
            0.5,
            "fraction of a table's columns that equal another one",
            "most of what it says is said twice",
        )
    },
    when=("inputs.repeated_columns",),
    find=repeated_columns,
)


def repeated_samples(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch most of which is copies."""
    facts = evidence.about("inputs")
    fraction = facts.number("repeated_samples") or 0.0
    small = (facts.number("samples") or 0) < _FEWEST
    if fraction > thresholds["repeated_samples"] and not evidence.samples_equal and not small:
        yield REPEATED_SAMPLES.finding(Severity.NOTE, score=fraction, repeated_fraction=fraction)


REPEATED_SAMPLES = Rule(
    code="repeated-samples",
    stage=CausalStage.INPUT,
    cause="input",
    title="Duplicate samples",
    explanation="A batch of copies holds less information than its size suggests; across a split they leak "
    "the labels.",
    source="a copy adds no information",
    advice="Look at how the batch is sampled.",
    thresholds={
        "repeated_samples": Threshold(
            0.5, "fraction of a batch's samples that are duplicates", "most of them are copies"
        )
    },
    when=(When("inputs.repeated_samples", above="repeated_samples"),),
    find=repeated_samples,
)


def equal_samples(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch that is one sample several times: the rules on differences between samples are left out."""
    if evidence.samples_equal:
        yield EQUAL_SAMPLES.finding(Severity.NOTE, score=0.0)


EQUAL_SAMPLES = Rule(
    code="equal-samples",
    stage=CausalStage.BATCH,
    cause="batch",
    title="All samples of the batch are equal",
    explanation="Dead units, batch norms, collapse and rank, and the gradient through a batch norm, are "
    "judged by how the samples of a batch differ: these rules were left out.",
    source="one sample has one representation",
    advice="Pass a batch of different samples.",
    reads=("inputs",),
    when=("samples_equal",),
    find=equal_samples,
)


def _normalizes_first(evidence: Evidence) -> bool:
    """Whether a norm stands at the entrance of the first block: it takes any scale."""
    return "Norm" in evidence.blocks[0].kind if evidence.blocks else False


def _is_telling_table(evidence: Evidence) -> bool:
    """Whether the inputs are a table of few columns and enough samples that differ.

    Wider ones are mostly flattened pictures, whose edges never change and are alike.
    """
    facts = evidence.about("inputs")
    enough = (facts.number("samples") or 0) >= _FEWEST and not evidence.samples_equal
    return enough and facts.holds("table") and (facts.number("columns") or 0) <= _MOST_COLUMNS


def one_token(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A batch of tokens nearly all of which are the same."""
    facts = evidence.about("inputs")
    fraction = facts.number("token_fraction") or 0.0
    if fraction > thresholds["one_token"]:
        yield ONE_TOKEN.finding(Severity.WARNING, score=fraction,
            token=facts.number("frequent_token"), fraction_of_tokens=fraction,
        )  # fmt: skip


ONE_TOKEN = Rule(
    code="one-token",
    stage=CausalStage.INPUT,
    cause="input",
    title="Nearly every token is the same",
    explanation="Padding left out, one token fills the sequences, as where a vocabulary does not fit its "
    "tokenizer and every word is unknown: what distinguishes the sequences never enters the network.",
    source="the entropy of the tokens",
    advice="Decode a few samples and read them; look at the vocabulary and at the number for unknown words.",
    thresholds={
        "one_token": Threshold(
            0.9, "fraction of the tokens, that of padding left out", "texts have below 0.1"
        )
    },
    when=(When("inputs.token_fraction", above="one_token"),),
    find=one_token,
    effects=("positions-unused", "unrelated-labels"),
)
