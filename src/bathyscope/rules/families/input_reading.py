"""Inputs that are never read, or read in the wrong order of their axes."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import MEASURED, CausalStage, Rule, Threshold, Thresholds, When


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
        ),
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
