"""Attention that chose too hard, not at all, or among no keys; and heads that do nothing."""

from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, Transition, problem_if

_SATURATED_STD = 2.5  # scores of unit deviation are the aim of 1/√d


def masked_row(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with queries that see no key; a problem where something is non-finite already."""
    fractions = evidence.column("attention", "masked_rows")
    lost = evidence.column("activations", "non_finite")
    out = [i for i, fraction in enumerate(fractions) if fraction]
    if out:
        yield MASKED_ROW.finding(
            problem_if(any(lost[i] for i in out)),
            evidence.labels(out),
            score=1.0,
            masked_rows=fractions[out[0]],
            num_blocks=len(out),
        )


MASKED_ROW = Rule(
    code="masked-row",
    stage=CausalStage.ATTENTION,
    cause="data-flow",
    title="Fully masked queries",
    explanation="A softmax over no key is 0/0: some kernels give NaN, others zeros, and the token learns "
    "nothing from its sequence.",
    source="softmax of −∞ alone",
    advice="Let every query attend to at least one key, itself for instance; look at left padding.",
    reads=("attention.masked_rows", "activations.non_finite"),
    when=("attention.masked_rows",),
    find=masked_row,
    effects=("non-finite",),
)


def missing_attention_scale(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose scores are not divided by √d, and are large or will be.

    Queries that are smaller than the keys by that factor make up for it, as T5's initialization does.
    """
    scales = evidence.column("attention", "scale")
    stds = evidence.column("attention", "logit_std")
    balance = evidence.column("attention", "query_over_key")
    limit = thresholds["missing_scale"]
    large = [
        i
        for i, (scale, std) in enumerate(zip(scales, stds, strict=True))
        if (scale or 0.0) >= limit and (std or 0.0) >= _SATURATED_STD
    ]
    later = [
        i
        for i, scale in enumerate(scales)
        if scale and balance[i] and scale >= limit and scale * (balance[i] or 0.0) >= limit
    ]
    out = large or later
    if out:
        out.sort(key=lambda i: -(stds[i] or 0.0))
        yield MISSING_ATTENTION_SCALE.finding(
            problem_if(bool(large)),
            evidence.labels(out),
            score=decades(scales[out[0]] or 1.0),
            scale_times_root_d=scales[out[0]],
            logit_std=stds[out[0]],
            num_blocks=len(out),
        )


MISSING_ATTENTION_SCALE = Rule(
    code="missing-attention-scale",
    stage=CausalStage.ATTENTION,
    cause="architecture",
    title="Attention without the scale 1/√d",
    explanation="Dot products of d features grow as √d: the softmax is saturated at initialization and "
    "passes no gradient to queries and keys.",
    source="Vaswani et al. 2017, section 3.2.1",
    advice="Divide the scores by √d, or normalize queries and keys.",
    reads=("attention.scale", "attention.logit_std", "attention.query_over_key"),
    thresholds={
        "missing_scale": Threshold(
            2.0,
            "factor on q·k, times √d; a problem where the scores deviate by 2.5 and more",
            "without 1/√d it is √d, from 2.8 at d = 8",
        )
    },
    find=missing_attention_scale,
    effects=("entropy-collapse", "attention-logit-growth"),
    remedies=("normalize-queries",),
)


def dead_heads(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with heads that give out or receive nothing, those with most of them first."""
    fractions = evidence.column("attention", "dead_heads")
    names = evidence.description("attention", "dead")
    out = [i for i, fraction in enumerate(fractions) if fraction]
    if out:
        out.sort(key=lambda i: -(fractions[i] or 0.0))
        yield DEAD_HEADS.finding(
            problem_if((fractions[out[0]] or 0.0) >= thresholds["dead_heads"]),
            evidence.labels(out),
            score=fractions[out[0]] or 0.0,
            dead_fraction=fractions[out[0]],
            heads=names[out[0]],
            num_blocks=len(out),
        )


DEAD_HEADS = Rule(
    code="dead-heads",
    stage=CausalStage.ATTENTION,
    cause="initialization",
    title="Dead attention heads",
    explanation="A head whose values are zero, or that the output layer ignores, adds nothing and learns "
    "nothing.",
    source="the product of zero and anything",
    advice="Re-initialize the value and output projections of the block.",
    reads=("attention.dead_heads", "attention.dead"),
    thresholds={
        "dead_heads": Threshold(0.5, "fraction of a block's heads; fewer are a warning", "tuned")
    },
    find=dead_heads,
    downstream=("silent-branch", "uniform-attention", "singular-representation"),
    remedies=("reinitialize-attention",),
)


def entropy_collapse(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks nearly all of whose rows are one-hot."""
    rows = evidence.column("attention", "one_hot_rows")
    entropy = evidence.column("attention", "entropy")
    out = [i for i, fraction in enumerate(rows) if (fraction or 0.0) >= thresholds["one_hot_rows"]]
    if out:
        out.sort(key=lambda i: entropy[i] or 0.0)
        yield ENTROPY_COLLAPSE.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(entropy[out[0]] or 0.0, 1e-40)),
            entropy=entropy[out[0]],
            one_hot_rows=rows[out[0]],
            num_blocks=len(out),
        )


ENTROPY_COLLAPSE = Rule(
    code="entropy-collapse",
    stage=CausalStage.TOKENS,
    cause="initialization",
    title="Attention entropy collapse: one key per query",
    explanation="Rows that give one key all their weight pass no gradient back through the softmax: the "
    "attention pattern can no longer be learned, and a small change of the logits makes the output jump.",
    source="Zhai et al. 2023 (σReparam); Dehghani et al. 2023 (ViT-22B)",
    advice="Normalize queries and keys (QK-norm), lower the learning rate, warm up.",
    reads=("attention.one_hot_rows", "attention.entropy"),
    thresholds={
        "one_hot_rows": Threshold(
            0.9, "fraction of a block's rows that give one key 0.99 of their weight", "tuned"
        )
    },
    find=entropy_collapse,
    downstream=("attention-logit-growth", "singular-representation"),
    upstream=("vanishing-gradient", "small-update"),
    event=Transition(
        title="attention collapsed to single keys",
        advice="Normalize queries and keys (QK-norm), lower the learning rate, or warm it up.",
        column="entropy",
        below=0.1,
        before=0.4,
        last=4,  # heads that learn to attend to one key do so over many samples
    ),
    remedies=("normalize-queries",),
)


def attention_logit_growth(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with large attention logits, the worst first."""
    logits = evidence.column("attention", "largest_logit")
    severe, mild = thresholds["attention_logit"], thresholds["attention_logit_warning"]
    for severity, low, high in (
        (Severity.PROBLEM, severe, float("inf")),
        (Severity.WARNING, mild, severe),
    ):
        out = [i for i, logit in enumerate(logits) if logit is not None and low < logit <= high]
        if out:
            out.sort(key=lambda i: -(logits[i] or 0.0))
            yield ATTENTION_LOGIT_GROWTH.finding(
                severity,
                evidence.labels(out),
                score=decades(logits[out[0]] or 1.0),
                largest_logit=logits[out[0]],
                num_blocks=len(out),
            )


ATTENTION_LOGIT_GROWTH = Rule(
    code="attention-logit-growth",
    stage=CausalStage.TOKENS,
    cause="learning-rate",
    title="Large attention logits",
    explanation="Logits of this size round coarsely in short formats and lead to one-hot rows, the usual "
    "precursor of a loss spike.",
    source="Dehghani et al. 2023 (ViT-22B); Wortsman et al. 2023",
    advice="Normalize queries and keys (QK-norm), lower the learning rate.",
    reads=("attention.largest_logit",),
    thresholds={
        "attention_logit": Threshold(
            200.0,
            "largest |q·k·scale|",
            "exp(−200) is zero in every format; logits of 200 are spaced 1 apart in bfloat16",
        ),
        "attention_logit_warning": Threshold(
            50.0, "the same, worth a look", "Dehghani et al. 2023: stable ViTs stay below 50"
        ),
    },
    find=attention_logit_growth,
    downstream=("entropy-collapse",),
    remedies=("normalize-queries",),
)


def uniform_attention(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose scores are all alike, while next to no gradient reaches queries and keys."""
    stds = evidence.column("attention", "logit_std")
    back = evidence.column("attention", "choice_gradient")
    out = [
        i
        for i, std in enumerate(stds)
        if std is not None
        and std < thresholds["uniform_logit_std"]
        and (back[i] or 0.0) < thresholds["choice_gradient"]
    ]
    if out:
        yield UNIFORM_ATTENTION.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(stds[out[0]] or 0.0, 1e-40)),
            logit_std=stds[out[0]],
            choice_gradient=back[out[0]],
            num_blocks=len(out),
        )


UNIFORM_ATTENTION = Rule(
    code="uniform-attention",
    stage=CausalStage.TOKENS,
    cause="initialization",
    title="Uniform attention that cannot be learned",
    explanation="All keys get the same weight whatever the tokens are, and hardly any gradient reaches "
    "queries and keys to change it: the heads are averages.",
    source="the gradient of q·k at q = k = 0 is zero",
    advice="Re-initialize the query and key projections.",
    reads=("attention.logit_std", "attention.choice_gradient"),
    thresholds={
        "uniform_logit_std": Threshold(
            1e-5,
            "standard deviation of a row's logits",
            "narrow networks with weights of 0.02 start at 6e-5, others at 1e-2 and more",
        ),
        "choice_gradient": Threshold(
            0.001,
            "gradient at queries or keys over that at values, where attention is uniform",
            "tuned",
        ),
    },
    find=uniform_attention,
    downstream=("token-collapse", "singular-representation"),
    upstream=("vanishing-gradient", "small-update"),
    remedies=("reinitialize-attention",),
)
