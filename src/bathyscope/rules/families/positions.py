"""Positions that read what they are to predict, padding, other documents, or not themselves."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, When, problem_if

_OFFSET = "∂loss/∂output is smallest at the token that the loss asks for"


def missing_causal_mask(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The loss asks for the next token, and positions read it."""
    asked, facts = evidence.about("effective_targets"), evidence.about("dependence")
    offset, ahead = asked.number("offset"), facts.number("reads_ahead")
    if facts.holds("reads_shifted_labels"):  # a decoder that is given the labels, moved by one
        offset = 1.0
    if offset is None or offset < 1 or ahead is None or ahead < offset:
        return
    yield MISSING_CAUSAL_MASK.finding(
        Severity.PROBLEM,
        score=40.0,
        asks_for_tokens_ahead=int(offset),
        reads_tokens_ahead=int(ahead),
        pattern=facts.word("pattern"),
    )


MISSING_CAUSAL_MASK = Rule(
    code="missing-causal-mask",
    stage=CausalStage.INPUT,
    cause="architecture",
    title="Positions read the token that they are to predict",
    explanation="The loss asks every position for a later token of the input, and the position reads that "
    "token: the network learns to look instead of to predict, and the loss falls to nothing without any use.",
    source=_OFFSET,
    advice="Mask what lies ahead: F.scaled_dot_product_attention(q, k, v, is_causal=True), mask= for "
    "nn.TransformerEncoder, bidirectional=False for recurrent layers, padding on the left for convolutions.",
    reads=("dependence", "effective_targets"),
    when=("dependence.reads_ahead",),
    find=missing_causal_mask,
    effects=("stale-cache",),
)


def unshifted_labels(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The loss asks every position for a token that it has read: its own, or an earlier one."""
    asked, facts = evidence.about("effective_targets"), evidence.about("dependence")
    offset = asked.number("offset")
    if offset is None or offset > 0:
        return
    causal = facts.word("pattern") == "causal" and offset == 0
    yield UNSHIFTED_LABELS.finding(
        problem_if(causal),
        score=40.0,
        offset=int(offset),
        fraction_of_labels=asked.number("offset_fraction"),
        pattern=facts.word("pattern"),
    )


UNSHIFTED_LABELS = Rule(
    code="unshifted-labels",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Labels that are the input itself",
    explanation="The loss asks every position for the token that stands there: the network learns to copy, "
    "which is no use where it is meant to predict the next token.",
    source=_OFFSET,
    advice="Shift the labels by one: logits = model(tokens[:, :-1]); labels = tokens[:, 1:].",
    reads=("dependence", "effective_targets"),
    when=(When("effective_targets.offset", below=1),),
    find=unshifted_labels,
)


def labels_shifted_twice(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The loss asks every position for the token after the next, or a later one."""
    asked = evidence.about("effective_targets")
    offset = asked.number("offset")
    if offset is not None and offset >= 2:
        yield LABELS_SHIFTED_TWICE.finding(
            Severity.PROBLEM,
            score=40.0,
            offset=int(offset),
            fraction_of_labels=asked.number("offset_fraction"),
        )


LABELS_SHIFTED_TWICE = Rule(
    code="labels-shifted-twice",
    stage=CausalStage.LABELS,
    cause="labels",
    title="Labels that are shifted twice",
    explanation="The loss asks every position for the token after the next one. Models that compute their "
    "own loss shift the labels by themselves: labels that were shifted before are shifted again.",
    source=_OFFSET,
    advice="Shift once: pass labels=input_ids to a model that computes its own loss, or compute the loss "
    "yourself from shifted labels.",
    when=(When("effective_targets.offset", above=1),),
    find=labels_shifted_twice,
)


def padding_read(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A gradient at padding from outputs of real tokens or of whole sequences."""
    facts = evidence.about("dependence")
    if not facts.holds("padding_is_read") or facts.holds("behind_padding"):
        return
    yield PADDING_READ.finding(
        problem_if(facts.holds("padding_given")),
        score=facts.number("padding_fraction") or 0.0,
        gradient_at_padding=facts.number("padding_read"),
        padding_fraction=facts.number("padding"),
        padding_known_by=facts.word("padding_known_by"),
        real_tokens_unread=facts.number("real_unread"),
    )


PADDING_READ = Rule(
    code="padding-read",
    stage=CausalStage.INPUT,
    cause="input",
    title="Padding that is read",
    explanation="Outputs change with what stands at padded positions: the same text gets another output in "
    "another batch, and the network spends its attention on nothing. Where real tokens are not read and "
    "padding is, the mask is the wrong way round.",
    source="the gradient at a masked position is 0",
    advice="Pass the mask on to every attention layer. In torch.nn a key_padding_mask is True at padding; in "
    "transformers an attention_mask is 1 at tokens.",
    when=("dependence.padding_is_read",),
    find=padding_read,
)


def state_behind_padding(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A recurrent network whose one output for a sequence reads the padding on its right."""
    facts = evidence.about("dependence")
    yield STATE_BEHIND_PADDING.finding(
        Severity.PROBLEM,
        score=facts.number("padding_fraction") or 0.0,
        fraction_of_the_gradient_at_padding=facts.number("padding_fraction"),
        padding_fraction=facts.number("padding"),
        padding_known_by=facts.word("padding_known_by"),
    )


STATE_BEHIND_PADDING = Rule(
    code="state-behind-padding",
    stage=CausalStage.INPUT,
    cause="architecture",
    title="The state behind the padding is taken for the last one",
    explanation="The recurrent layer runs on over the padding at the right, and its state there is the "
    "output: what the text said has faded by then.",
    source="output[:, -1] is the last step of the longest sequence",
    advice="Take the state at the last token: output[torch.arange(n), lengths - 1], or pack the sequences "
    "(nn.utils.rnn.pack_padded_sequence) and use h_n.",
    when=("dependence.behind_padding",),
    find=state_behind_padding,
    effects=(
        *("padding-read", "unread-input", "constant-output"),
        *("singular-representation", "collapsed-representation", "vanishing-gradient"),
    ),
)


def crossed_documents(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Positions of a packed document that read another one."""
    crossing = evidence.about("dependence").number("documents_cross")
    if crossing is not None and crossing > thresholds["documents_cross"]:
        yield CROSSED_DOCUMENTS.finding(
            Severity.WARNING, score=crossing, fraction_of_the_gradient_at_others=crossing
        )


CROSSED_DOCUMENTS = Rule(
    code="crossed-documents",
    stage=CausalStage.INPUT,
    cause="architecture",
    title="Packed documents that read one another",
    explanation="Sequences hold several documents, by their ids or by positions that begin again, and the "
    "later ones read the earlier ones, with which they have nothing to do.",
    source="the gradient at a masked position is 0",
    advice="Mask attention between documents: a block-diagonal mask, or cu_seqlens for kernels of variable "
    "length.",
    thresholds={
        "documents_cross": Threshold(
            1e-6,
            "fraction of the gradient of a position that lies at other documents",
            "it is 0 where they are masked",
        )
    },
    when=(When("dependence.documents_cross", above="documents_cross"),),
    find=crossed_documents,
)


def crossed_heads(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A query that does not read its own position, but the one that a view without a transpose puts there.

    Or heads that are put back together by such a view.
    """
    facts = evidence.about("dependence")
    by_view = "across positions" in (facts.word("attention_oddities") or "")
    if facts.holds("heads_cross") or by_view:
        yield CROSSED_HEADS.finding(
            Severity.PROBLEM,
            score=40.0,
            heads=facts.number("heads"),
            split_or_merged_by_a_view=by_view,
            query_at_position=facts.number("heads_query"),
            reads_position=facts.number("heads_read"),
        )


CROSSED_HEADS = Rule(
    code="crossed-heads",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="Attention heads that are cut across positions",
    explanation="A query is made of the features of other positions: (samples, positions, heads × features) "
    "was viewed as (samples, heads, positions, features), which moves positions into heads.",
    source="head h at position l then holds position ⌊(h·L + l)/H⌋",
    advice="Split the features first: x.view(n, length, heads, -1).transpose(1, 2), and back by "
    "transpose(1, 2).reshape(n, length, -1).",
    when=("dependence.heads_cross", "dependence.attention_oddities"),
    find=crossed_heads,
    effects=(
        "missing-causal-mask",
        "uniform-attention",
        "dead-heads",
        "padding-read",
        "stale-cache",
    ),
)
