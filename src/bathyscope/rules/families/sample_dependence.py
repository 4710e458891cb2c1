"""Samples that read one another, their place in the batch, or chance, in eval mode."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.rule import CausalStage, Rule, Thresholds


def mixed_samples(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A gradient from one sample's output to another sample's input, in eval mode.

    Norms that use the batch's statistics in eval mode too do that by design, and a batch with the time first
    looks the same: both are worth a look.
    """
    facts = evidence.about("dependence")
    if evidence.about("effective_targets").holds("across_samples"):
        yield MIXED_SAMPLES.finding(
            Severity.PROBLEM,
            score=40.0,
            cause="loss",
            title="A softmax over the samples of a batch",
            why="The samples of a batch share the softmax of each class, in place of the classes of each "
            "sample: softmax(dim=0), or log_softmax(dim=0), where dim=1 is meant.",
            source="∂loss/∂output of a class adds up to 0 over the samples, that of a sample does not",
            remedy="Use F.cross_entropy on logits, or log_softmax(dim=1).",
        )
        return
    time_first = facts.holds("time_first")
    if not facts.holds("mixes") and not time_first:
        return
    designed = (facts.number("batch_statistics") or 0) > 0
    yield MIXED_SAMPLES.finding(
        Severity.WARNING if designed or time_first else Severity.PROBLEM,
        score=40.0,
        gradient_at_other_samples=facts.number("other_samples"),
        change_with_other_samples=facts.number("company"),
        batch_first_is_false=facts.holds("takes_time_first"),
        may_be_time_first=time_first,
        norms_with_batch_statistics=facts.word("batch_statistics_names") or None,
    )


MIXED_SAMPLES = Rule(
    code="mixed-samples",
    stage=CausalStage.INPUT,
    cause="architecture",
    title="Samples of a batch read one another",
    explanation="In eval mode the output of a sample depends on other samples of its batch: the network "
    "attends, averages or recurs along the axis of the samples. It learns what no lone sample can show it, "
    "and predictions change with the batch.",
    source="∂y_i/∂x_j = 0 for samples i ≠ j of a function of one sample",
    advice="Is batch_first=True missing (nn.LSTM, nn.GRU, nn.MultiheadAttention, nn.TransformerEncoderLayer "
    "take the time first by default)? Look also for softmax(dim=0), and for view or reshape where permute "
    "or transpose is needed.",
    when=("effective_targets.across_samples", "dependence.mixes", "dependence.time_first"),
    find=mixed_samples,
    effects=("unread-input", "positions-unused", "token-collapse"),
)


def place_in_batch(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Outputs that change when the samples are put in another order."""
    facts = evidence.about("dependence")
    yield PLACE_IN_BATCH.finding(
        Severity.PROBLEM, score=40.0, change_in_reversed_order=facts.number("place")
    )


PLACE_IN_BATCH = Rule(
    code="place-in-batch",
    stage=CausalStage.INPUT,
    cause="architecture",
    title="Outputs that depend on a sample's place in the batch",
    explanation="The same sample gets another output at another place of its batch, though no other sample "
    "is read: something is added or chosen by the index along the axis of the samples, such as a positional "
    "encoding.",
    source="f(Px) = P f(x) for every order P of the samples",
    advice="Add positions along the axis of the tokens: x + pe[:, :x.size(1)] for (samples, tokens, "
    "features); x + pe[:x.size(0)] is for inputs with the tokens first.",
    when=("dependence.depends_on_place",),
    find=place_in_batch,
    effects=("positions-unused",),
)


def random_in_eval(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Two passes in eval mode that differ. Where no dropout is on, sampling may be meant, but of classes."""
    facts = evidence.about("dependence")
    if not facts.holds("is_random") or facts.holds("carries_state"):
        return
    dropout = facts.number("eval_dropout") or 0.0
    fresh = facts.holds("made_in_forward") or evidence.about("output").holds("index_targets")
    yield RANDOM_IN_EVAL.finding(
        Severity.PROBLEM if dropout > 0 else Severity.WARNING if fresh else Severity.NOTE,
        score=facts.number("repeat") or 0.0,
        change_from_pass_to_pass=facts.number("repeat"),
        dropout_in_eval_mode=dropout or None,
    )


RANDOM_IN_EVAL = Rule(
    code="random-in-eval",
    stage=CausalStage.MODE,
    cause="mode",
    title="Predictions that are random in eval mode",
    explanation="Two passes over the same batch in eval mode differ. A dropout that does not follow the mode "
    "lowers every prediction; sampling, as in a variational autoencoder, may be meant.",
    source="nn.Module.eval",
    advice="Pass the mode on: F.dropout(x, p, training=self.training), "
    "F.scaled_dot_product_attention(..., dropout_p=p if self.training else 0.0).",
    reads=("dependence", "output"),
    when=("dependence.is_random",),
    find=random_in_eval,
)


def carried_state(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Equal passes with equal random numbers that differ."""
    facts = evidence.about("dependence")
    if facts.holds("carries_state") and not facts.holds("made_in_forward"):
        yield CARRIED_STATE.finding(
            Severity.WARNING,
            score=facts.number("repeat") or 0.0,
            change_from_pass_to_pass=facts.number("repeat"),
        )


CARRIED_STATE = Rule(
    code="carried-state",
    stage=CausalStage.MODE,
    cause="architecture",
    title="State that is carried from pass to pass",
    explanation="The output for a batch depends on the batches before it: a hidden state, a cache or a "
    "buffer is kept between passes in eval mode. Samples of other batches have nothing to do with it, unless "
    "sequences are meant to be continued.",
    source="two equal passes with equal random numbers are equal",
    advice="Start from zeros in every forward(), or reset the state between sequences.",
    when=("dependence.carries_state",),
    find=carried_state,
)
