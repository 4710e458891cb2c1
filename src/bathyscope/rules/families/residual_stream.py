"""The residual stream of a transformer: its tokens, growth, embedding, output and first steps."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, When, problem_if

_SMALL_BRANCH = 0.02  # root mean square: below, a branch starts small by design, as LayerScale's
_LEARNED = 0.9  # of the constant baseline's loss: a network below it distinguishes its samples
_LEAP = 10.0  # times the stream: a branch that makes it another one
_FEWEST_POST_NORM = 6  # blocks: below, post-norm trains without a warm-up (Xiong et al. 2020)
_DEEP_POST_NORM = (
    12  # blocks: a BERT of six trains at rates at which one of twelve stays where it is
)


def embedding_scale(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A table so large that the logits tied to it, or the stream behind it, are."""
    settings = _settings(evidence)
    rms, std = (_number(settings.get(n)) for n in ("table_rms", "output_std"))
    name = settings.get("table")
    if not isinstance(name, str) or rms is None:
        return
    first = next((s for s in _branch_sizes(evidence) if s is not None), None)
    posts = evidence.column("attention", "post_norm")
    tied = settings.get("is_tied") and (std or 0.0) > thresholds["tied_output_std"]
    drowns = first is not None and first < 0.05 and rms > 1.0 and not any(posts)
    if tied or drowns:
        yield EMBEDDING_SCALE.finding(
            Severity.PROBLEM,
            [name],
            score=decades(rms / 0.02),
            table_rms=rms,
            output_std=std,
            first_branch_fraction=first,
        )


EMBEDDING_SCALE = Rule(
    code="embedding-scale",
    stage=CausalStage.ATTENTION,
    cause="initialization",
    title="An embedding far too large",
    explanation="Tied to the output it makes logits of that size, so that the first loss is far above the "
    "constant baseline; in a residual stream it dominates what the branches add.",
    source="Press and Wolf 2017; GPT-2 initializes it with a standard deviation of 0.02",
    advice="Re-initialize or rescale the embedding to a standard deviation of 0.02, or normalize after it.",
    reads=("attention", "attention.post_norm", "attention.attention_size", "attention.mlp_size"),
    thresholds={
        "tied_output_std": Threshold(
            5.0,
            "the same where the output is tied to the embedding",
            "an embedding with a standard deviation of 0.02 gives 0.02·√d",
        )
    },
    find=embedding_scale,
    effects=("output-logit-drift", "stream-outgrows-branches"),
    downstream=(
        *("not-norm-preserving", "precision-loss", "attention-logit-growth", "entropy-collapse"),
        *("positions-unused", "poor-start"),
    ),
    remedies=("shrink-embedding",),
)


def token_collapse(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks after which the tokens of a sequence are alike, first to last.

    A network that has learned to answer for a whole sequence needs no more than one vector at its end.
    """
    spread = evidence.column("attention", "token_spread")
    similarity = evidence.column("attention", "token_similarity")
    out = [
        i
        for i, s in enumerate(spread)
        # what attention alone gives out is an average, and no stream
        if s is not None
        and s < thresholds["token_spread"]
        and "attention" not in evidence.blocks[i].kind.lower()
    ]
    facts = evidence.about("output")
    loss, constant = facts.number("loss"), facts.number("best_constant")
    has_learned = loss is not None and constant is not None and loss < _LEARNED * constant
    if out:
        yield TOKEN_COLLAPSE.finding(
            Severity.WARNING if has_learned else Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(spread[out[0]] or 0.0, 1e-40)),
            token_spread=spread[out[0]],
            token_similarity=similarity[out[0]],
            num_blocks=len(out),
        )


TOKEN_COLLAPSE = Rule(
    code="token-collapse",
    stage=CausalStage.TOKENS,
    cause="architecture",
    title="Token collapse: all tokens of a sequence look alike",
    explanation="Attention averages; without skip connections, or with weak ones, the tokens of a sequence "
    "become one vector, and no later block can distinguish positions.",
    source="Dong et al. 2021 (rank collapse, doubly exponential in depth)",
    advice="Skip connections around attention; smaller attention branches (LayerScale, ReZero).",
    reads=("attention.token_spread", "attention.token_similarity", "output"),
    thresholds={"token_spread": Threshold(0.05, "‖X − 1x̄ᵀ‖/‖X‖ of a sequence's tokens", "tuned")},
    when=(When("attention.token_spread", below="token_spread"),),
    find=token_collapse,
    effects=("singular-representation", "collapsed-representation"),
    downstream=("dead-units", "uniform-attention", "positions-unused", "constant-output"),
    upstream=("vanishing-gradient",),
    remedies=("reinitialize-first-block",),
)


def stream_outgrows_branches(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The block that made the stream large, then those whose branches are lost beside it."""
    sizes = _branch_sizes(evidence)
    rms = evidence.column("attention", "branch_rms")
    growth = evidence.column("attention", "stream_growth")
    out = [
        i
        for i, size in enumerate(sizes)
        if size is not None
        and size < thresholds["branch_fraction"]
        and (rms[i] or 0) > _SMALL_BRANCH
    ]
    if out:
        before = [i for i in range(out[0]) if (sizes[i] or 0.0) > _LEAP]
        yield STREAM_OUTGROWS_BRANCHES.finding(
            Severity.PROBLEM,
            evidence.labels([*before[-1:], *out]),
            score=decades(sizes[out[0]] or 1e-40),
            branch_fraction=sizes[out[0]],
            stream_growth=growth[out[0]],
            num_blocks=len(out),
        )


STREAM_OUTGROWS_BRANCHES = Rule(
    code="stream-outgrows-branches",
    stage=CausalStage.TOKENS,
    cause="initialization",
    title="A residual stream that has outgrown its branches",
    explanation="What the later blocks add is lost beside the residual stream, and behind a norm their "
    "gradient is divided by its size: they hardly learn.",
    source="Xiong et al. 2020; Peri-LN 2025",
    advice="Rescale what made the residual stream large (the named block, or the embedding); add "
    "norms after the branches.",
    reads=(
        "attention.branch_rms",
        "attention.stream_growth",
        "attention.attention_size",
        "attention.mlp_size",
    ),
    thresholds={
        "branch_fraction": Threshold(
            0.01, "‖branch‖/‖residual stream‖ of a branch that is not small itself", "tuned"
        )
    },
    find=stream_outgrows_branches,
    downstream=("precision-loss", "silent-branch", "positions-unused", "not-norm-preserving"),
    upstream=("exploding-gradient", "vanishing-gradient", "small-update"),
    remedies=("reinitialize-first-block",),
)


def post_norm_imbalance(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Post-norm blocks whose first steps add up to a change of the whole output."""
    is_post = evidence.column("attention", "post_norm")
    ratios = evidence.column("updates", "ratio")
    out = [i for i, post in enumerate(is_post) if post]
    if len(out) < _FEWEST_POST_NORM:
        return
    amplified = sum(2 * (ratios[i] or 0.0) for i in out)  # attention and feed-forward
    if amplified <= thresholds["amplified_update_warning"]:
        return
    yield POST_NORM_IMBALANCE.finding(
        problem_if(amplified > thresholds["amplified_update"] and len(out) >= _DEEP_POST_NORM),
        evidence.labels(out),
        score=decades(amplified / thresholds["amplified_update"]),
        amplified_update=amplified,
        update_ratio=max(ratios[i] or 0.0 for i in out),
        num_blocks=len(out),
    )


POST_NORM_IMBALANCE = Rule(
    code="post-norm-imbalance",
    stage=CausalStage.TOKENS,
    cause="learning-rate",
    title="A post-norm network whose first steps add up",
    explanation="Behind each norm of the sum a branch weighs as much as the residual stream, so the "
    "updates of all branches add up at the output, in proportion to depth: without a warm-up "
    "the first steps destroy it, and training ends on a plateau.",
    source="Liu et al. 2020 (Admin); Xiong et al. 2020; Wang et al. 2022 (DeepNorm)",
    advice="Warm-up, a lower learning rate, norms before the branches (pre-norm), or DeepNorm's scales.",
    reads=("attention.post_norm", "updates.ratio"),
    thresholds={
        "amplified_update_warning": Threshold(0.25, "the same, worth a look", "tuned"),
        "amplified_update": Threshold(
            0.5,
            "Σ over post-norm branches of ‖ΔW‖/‖W‖ of the first step",
            "Liu et al. 2020: the changes of all branches add up",
        ),
    },
    when=("attention.post_norm",),
    find=post_norm_imbalance,
    effects=("large-update",),
    downstream=("overshooting-step", "unstable-rate"),
    remedies=("tame-post-norm",),
)


def output_logit_drift(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Logits with a large common offset, or that differ by far more than a first guess may."""
    settings = _settings(evidence)
    log_z, std, classes = (_number(settings.get(n)) for n in ("log_z", "output_std", "num_classes"))
    if log_z is None or std is None or not classes:
        return
    offset = abs(log_z - math.log(classes))
    if offset > thresholds["log_z"] or std > thresholds["output_std"]:
        head = settings.get("head")
        yield OUTPUT_LOGIT_DRIFT.finding(
            Severity.PROBLEM,
            [head] if isinstance(head, str) else [],
            score=decades(max(offset, std)),
            log_z=log_z,
            output_std=std,
        )


OUTPUT_LOGIT_DRIFT = Rule(
    code="output-logit-drift",
    stage=CausalStage.TOKENS,
    cause="output",
    title="Output logits far from zero",
    explanation="A softmax is invariant to a common offset and nothing else constrains it; large logits "
    "round coarsely, and where they vary widely the loss starts or jumps far above the constant baseline.",
    source="Chowdhery et al. 2022 (PaLM, z-loss); Wortsman et al. 2023",
    advice="z-loss: add 1e-4·(log Z)²; rescale the head; weight decay on it.",
    reads=("attention",),
    thresholds={
        "log_z": Threshold(
            50.0,
            "|log Z − ln v| of the output",
            "exp(−200) is zero in every format; logits of 200 are spaced 1 apart in bfloat16",
        ),
        "output_std": Threshold(
            20.0, "standard deviation of a row of the output's logits", "tuned"
        ),
    },
    find=output_logit_drift,
    downstream=("saturated-output", "poor-start", "overshooting-step"),
    remedies=("shrink-head",),
)


def positions_unused(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """An output that does not change when tokens change places."""
    effect = _number(_settings(evidence).get("position_effect"))
    sizes = [size for size in _branch_sizes(evidence) if size is not None]
    if sizes and max(sizes) < thresholds["branch_fraction"]:
        return  # branches that start next to zero mix no tokens yet, wherever they stand
    if effect is not None and effect < thresholds["position_effect"]:
        table = _settings(evidence).get("position_table")
        yield POSITIONS_UNUSED.finding(
            Severity.WARNING,
            [table] if isinstance(table, str) else [],
            score=1.0,
            position_effect=effect,
        )


POSITIONS_UNUSED = Rule(
    code="positions-unused",
    stage=CausalStage.TOKENS,
    cause="architecture",
    title="Positions are not used",
    explanation="The output is the same whatever the order of the tokens: the network sees a bag of tokens.",
    source="attention without positions is equivariant to permutations",
    advice="Add position embeddings (learned, rotary), or look why they are not added; right for sets.",
    reads=("attention", "attention.attention_size", "attention.mlp_size"),
    thresholds={
        "branch_fraction": Threshold(
            0.01, "‖branch‖/‖residual stream‖ of a branch that is not small itself", "tuned"
        ),
        "position_effect": Threshold(
            0.0001, "relative change of the output when tokens are permuted", "rounding"
        ),
    },
    find=positions_unused,
)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _branch_sizes(evidence: Evidence) -> list[float | None]:
    """The larger branch of each block against its stream."""
    pairs = zip(
        evidence.column("attention", "attention_size"),
        evidence.column("attention", "mlp_size"),
        strict=True,
    )
    return [max((s for s in pair if s is not None), default=None) for pair in pairs]


def _settings(evidence: Evidence) -> dict[str, object]:
    return dict(evidence.about("attention").values)
