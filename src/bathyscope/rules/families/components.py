"""The components of a network by themselves: norms, tables, attention's weights, shortcuts, head, cache."""

import re
from collections.abc import Iterator
from statistics import median

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.evidence import Evidence, decades
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, When, problem_if


def norm_gain(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Norms whose gain is far from that of the others, or whose offset drowns what they normalize.

    A norm whose namesakes in all blocks have a gain of zero starts so by design; in a block whose
    weights are all as small, the norm is not what stands out.
    """
    facts = evidence.about("dependence")
    gains, usual = facts.values.get("norm_gains"), facts.number("typical_gain")
    if not isinstance(gains, dict) or not usual:
        return
    limit = thresholds["norm_gain"]
    scaled = _scaled_blocks(evidence, below=1 / thresholds["norm_gain_severe"])
    out = [
        n
        for n, g in gains.items()
        if (g > limit * usual or (g < usual / limit and not n.startswith(scaled)))
        and not _by_design(n, gains)
    ]
    if out:
        worst = max(out, key=lambda n: decades(gains[n] / usual))
        yield NORM_GAIN.finding(
            problem_if(decades(gains[worst] / usual) >= decades(thresholds["norm_gain_severe"])),
            [worst, *(n for n in out if n != worst)],
            score=decades(gains[worst] / usual),
            gain=gains[worst],
            typical_gain=usual,
            num_norms=len(out),
        )
        return
    offset, gain = facts.number("norm_offset") or 0.0, facts.number("norm_offset_gain") or 0.0
    if gain and offset > thresholds["norm_offset"] * gain:
        yield NORM_GAIN.finding(
            problem_if(offset > 4 * thresholds["norm_offset"] * gain),
            [facts.word("norm_offset_name") or ""],
            score=decades(offset / gain),
            offset=offset,
            gain=gain,
        )


def _scaled_blocks(evidence: Evidence, *, below: float) -> tuple[str, ...]:
    """Blocks, as prefixes of names, whose weights together are this far below those of the typical one."""
    norms = evidence.column("weights", "norm")
    known = [n for n in norms if n is not None]
    smallest = below * median(known) if known else 0.0
    pairs = zip(evidence.blocks, norms, strict=True)
    return tuple(f"{block.label}." for block, norm in pairs if norm is not None and norm < smallest)


def _by_design(name: str, gains: dict[str, float]) -> bool:
    role = re.sub(r"\d+", "#", name)
    alike = [g for other, g in gains.items() if re.sub(r"\d+", "#", other) == role]
    return len(alike) > 1 and max(alike) < 1e-6


NORM_GAIN = Rule(
    code="norm-gain",
    stage=CausalStage.ATTENTION,
    cause="initialization",
    title="A norm whose gain or offset stands out",
    explanation="What the norm passes on is far larger or smaller than what the other norms do, or is hidden "
    "by an offset that is the same for every token: the layers behind it see little of what came in.",
    source="y = gain · (x − mean)/√(variance + ε) + offset, fitted to what the norm gave",
    advice="Set the gain to 1 and the offset to 0; look for a checkpoint of another convention (1 + gain).",
    reads=("dependence", "weights.norm"),
    thresholds={
        "norm_gain": Threshold(
            8.0, "gain over that of the typical norm, or the reverse", "tuned on planted faults"
        ),
        "norm_gain_severe": Threshold(50.0, "the same, a problem", "tuned on planted faults"),
        "norm_offset": Threshold(5.0, "offset over gain", "tuned on planted faults"),
    },
    when=("dependence.typical_gain",),
    find=norm_gain,
    downstream=(
        *("entropy-collapse", "attention-logit-growth", "token-collapse", "uniform-attention"),
        *("stream-outgrows-branches", "output-logit-drift", "saturated-output", "poor-start"),
        *("silent-branch", "dead-heads", "cut-gradient", "singular-representation"),
        *("collapsed-representation", "not-norm-preserving", "constant-output", "dead-units"),
        *("vanishing-gradient", "exploding-gradient", "small-update", "positions-unused"),
    ),
    upstream=("vanishing-gradient", "exploding-gradient", "not-norm-preserving", "small-update"),
)


def norm_epsilon(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Norms over features whose ε is a good part of what they divide by."""
    facts = evidence.about("dependence")
    fraction = facts.number("epsilon_fraction") or 0.0
    if fraction > thresholds["epsilon_fraction"]:
        yield NORM_EPSILON.finding(
            problem_if(fraction > thresholds["epsilon_fraction_severe"]),
            [facts.word("epsilon_name") or ""],
            score=fraction,
            epsilon_over_variance_and_epsilon=fraction,
        )


NORM_EPSILON = Rule(
    code="norm-epsilon",
    stage=CausalStage.ATTENTION,
    cause="architecture",
    title="A norm whose ε outweighs what it normalizes",
    explanation="The norm divides by √(variance + ε), and ε is as large as the variance or larger: it hardly "
    "normalizes, and the size of what comes in reaches the layers behind.",
    source="y = (x − mean)/√(variance + ε)",
    advice="Use an ε of 1e-5 or less, or scale up what comes in.",
    thresholds={
        "epsilon_fraction": Threshold(0.2, "ε/(variance + ε), median over tokens", "tuned"),
        "epsilon_fraction_severe": Threshold(
            0.9, "the same, a problem", "then ε is 9 times as large"
        ),
    },
    when=(When("dependence.epsilon_fraction", above="epsilon_fraction"),),
    find=norm_epsilon,
    downstream=("uniform-attention", "not-norm-preserving", "vanishing-gradient", "small-update"),
)


def lost_tokens(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Tokens or positions whose vectors are zero or those of others, and dimensions that no row uses."""
    facts = evidence.about("dependence")
    for kind in ("token", "position"):
        rows = facts.number(f"{kind}_rows") or 0
        lost = (facts.number(f"{kind}_zero_rows") or 0) + (facts.number(f"{kind}_equal_rows") or 0)
        # one row of zeros may stand for padding that nobody has named
        if rows > 1 and lost > max(1.0, thresholds["lost_rows"] * rows):
            every = kind == "position" and facts.number("position_zero_rows") == rows
            yield LOST_TOKENS.finding(
                Severity.WARNING if every or kind == "position" else Severity.PROBLEM,
                [facts.word(f"{kind}_table") or ""],
                score=lost / rows,
                rows_looked_up=rows,
                zero_rows=facts.number(f"{kind}_zero_rows"),
                rows_equal_to_others=facts.number(f"{kind}_equal_rows"),
            )
    in_text = facts.number("padding_in_text") or 0.0
    if in_text > thresholds["lost_rows"]:
        yield LOST_TOKENS.finding(
            Severity.WARNING,
            [facts.word("padding_table") or ""],
            score=in_text,
            fraction_of_tokens=in_text,
            title="padding_idx is a token of the text: its vector is never learned",
        )
    merged = facts.number("merged_tokens") or 0.0
    if merged > thresholds["lost_rows"]:
        yield LOST_TOKENS.finding(
            Severity.PROBLEM, [facts.word("token_table") or ""], score=merged, merged_tokens=merged
        )
    columns = facts.number("zero_columns") or 0.0
    if thresholds["lost_rows"] < columns < 1:
        yield LOST_TOKENS.finding(
            Severity.WARNING,
            [facts.word("zero_columns_table") or ""],
            score=columns,
            zero_columns=columns,
        )


LOST_TOKENS = Rule(
    code="lost-tokens",
    stage=CausalStage.INPUT,
    cause="initialization",
    title="Embeddings that do not tell their tokens apart",
    explanation="Rows of an embedding that the batch looks up are zero or equal to one another, tokens are "
    "taken for others before they are looked up, or dimensions are zero in all rows: what distinguishes "
    "these tokens or positions never enters the network.",
    source="equal rows give equal outputs",
    advice="Look at what was loaded into the table, at padding_idx, and at clamp() or % on the ids.",
    thresholds={
        "lost_rows": Threshold(0.02, "fraction of rows or columns", "healthy tables have none")
    },
    when=(
        "dependence.token_rows",
        "dependence.position_rows",
        "dependence.merged_tokens",
        "dependence.padding_in_text",
        "dependence.zero_columns",
    ),
    find=lost_tokens,
    effects=("positions-unused", "token-collapse"),
)


def attention_weights(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Attention that is written out with its softmax along another axis, twice, or not at all."""
    odd = evidence.about("dependence").word("attention_oddities") or ""
    known = [o for o in odd.split(", ") if "softmax" in o]
    if known:
        yield ATTENTION_WEIGHTS.finding(
            problem_if("scores without a softmax" not in known), score=10.0, what=", ".join(known)
        )


ATTENTION_WEIGHTS = Rule(
    code="attention-weights",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="Attention weights that are not a softmax over the keys",
    explanation="The weights of each query should be a softmax of its scores over the keys. Over the "
    "queries the weights of one depend on the others and do not add up to one; a softmax of a softmax is "
    "nearly uniform; without one the scores themselves weigh the values, negative ones included; where a "
    "mask comes after the softmax, the weights that are left add up to less than one.",
    source="Vaswani et al. 2017, equation 1",
    advice="scores.masked_fill(mask, -inf).softmax(dim=-1), once, with the keys on the last axis.",
    when=("dependence.attention_oddities",),
    find=attention_weights,
    effects=(
        "missing-causal-mask",
        "uniform-attention",
        "token-collapse",
        "padding-read",
        "stale-cache",
    ),
)


def tied_heads(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with heads that do the same, or whose queries, keys and values are the same."""
    equal = evidence.column("attention", "equal_heads")
    tied = evidence.description("attention", "tied")
    out = [i for i, fraction in enumerate(equal) if fraction]
    if out:
        out.sort(key=lambda i: -(equal[i] or 0.0))
        yield TIED_HEADS.finding(
            Severity.PROBLEM,
            evidence.labels(out),
            score=equal[out[0]] or 0.0,
            equal_heads=equal[out[0]],
            num_blocks=len(out),
        )
    same = [i for i, names in enumerate(tied) if names]
    if same:
        yield TIED_HEADS.finding(
            Severity.WARNING,
            evidence.labels(same),
            score=0.5,
            tied_projections=tied[same[0]],
            num_blocks=len(same),
        )


TIED_HEADS = Rule(
    code="tied-heads",
    stage=CausalStage.ATTENTION,
    cause="initialization",
    title="Attention heads or projections that are the same",
    explanation="Heads that give out the same get the same gradient and stay one head. Where queries and "
    "keys are the same a token attends to itself; where keys and values are, it is read as it is found.",
    source="equal weights with equal gradients stay equal",
    advice="Draw the projections independently; look for one layer that is used for several of them.",
    reads=("attention.equal_heads", "attention.tied"),
    find=tied_heads,
)


def missing_shortcut(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks without a sum x + branch(x) that most blocks of their kind have."""
    has_heads = evidence.column("attention", "heads")
    spoiled = evidence.column("activations", "non_finite")  # where nothing adds up
    out: dict[int, list[str]] = {}
    for column, part in (("attention_size", "attention"), ("mlp_size", "feed-forward")):
        sizes = evidence.column("attention", column)
        for kind in {block.kind for block in evidence.blocks}:
            here = [
                i
                for i, b in enumerate(evidence.blocks)
                if b.kind == kind and has_heads[i] is not None and not spoiled[i]
            ]
            without = [i for i in here if sizes[i] is None]
            if len(here) >= 3 and 2 * len(without) < len(here):
                for i in without:
                    out.setdefault(i, []).append(part)
    if out:
        yield MISSING_SHORTCUT.finding(
            Severity.PROBLEM,
            evidence.labels(sorted(out)),
            score=10.0,
            around=" and ".join(out[min(out)]),
            num_blocks=len(out),
        )


MISSING_SHORTCUT = Rule(
    code="missing-shortcut",
    stage=CausalStage.STRUCTURE,
    cause="architecture",
    title="A block without the shortcut that its neighbors have",
    explanation="Most blocks of this kind add what attention or feed-forward gives to what came in; this one "
    "passes on the branch alone, and what the blocks before it have built is lost there.",
    source="x + branch(x); singularity, section IV",
    advice="Add the input of the branch to its output.",
    reads=(
        "activations.non_finite",
        "attention.attention_size",
        "attention.mlp_size",
        "attention.heads",
    ),
    when=("attention.heads",),
    find=missing_shortcut,
    downstream=("token-collapse", "singular-representation", "collapsed-representation"),
    upstream=("vanishing-gradient", "not-norm-preserving"),
)


def missing_activation(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Two linear layers with nothing in between, in a network with attention."""
    facts = evidence.about("dependence")
    if facts.number("linear_pairs") and "attention" in evidence.measurements:
        yield MISSING_ACTIVATION.finding(
            Severity.WARNING, score=1.0, layers=facts.word("linear_pairs_names")
        )


MISSING_ACTIVATION = Rule(
    code="missing-activation",
    stage=CausalStage.STRUCTURE,
    cause="activation",
    title="Two linear layers with no activation between them",
    explanation="The second layer reads the first as it is, and neither is a bottleneck: together they are "
    "one linear layer, and the feed-forward part of the block adds nothing that attention does not have.",
    source="W₂(W₁x) = (W₂W₁)x",
    advice="Put the activation back (GELU, ReLU, SiLU).",
    reads=("dependence", "attention"),
    when=("dependence.linear_pairs",),
    find=missing_activation,
)


_SMALL_VOCABULARY = 16


def constant_classes(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Outputs for classes that are the same whatever comes in, while others are not."""
    facts = evidence.about("dependence")
    fraction = facts.number("constant_outputs") or 0.0
    classes = evidence.about("effective_targets").number("num_classes") or 0
    # one token of a vocabulary is padding, whose row is zero in a table that the output shares
    fewest = 1.5 if classes > _SMALL_VOCABULARY else 0.5
    if fraction < 1 and fraction * classes > fewest:
        yield CONSTANT_CLASSES.finding(
            Severity.PROBLEM, evidence.last_block, score=fraction, constant_fraction=fraction
        )


CONSTANT_CLASSES = Rule(
    code="constant-classes",
    stage=CausalStage.OUTCOME,
    cause="output",
    title="Classes whose output never changes",
    explanation="The logits of some classes are the same number for every sample: nothing that the network "
    "sees speaks for or against them.",
    source="a row of zeros in the last layer",
    advice="Look at the rows of the last layer: what was loaded into it, and what masks its output.",
    reads=("dependence", "effective_targets"),
    when=("dependence.constant_outputs",),
    find=constant_classes,
)


def stale_cache(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """A pass in two cached halves that differs from the pass as a whole."""
    apart = evidence.about("dependence").number("cache_difference")
    if apart is not None and apart > thresholds["cache_difference"]:
        yield STALE_CACHE.finding(
            Severity.PROBLEM,
            score=decades(apart / thresholds["cache_difference"]),
            difference=apart,
        )


STALE_CACHE = Rule(
    code="stale-cache",
    stage=CausalStage.MODE,
    cause="data-flow",
    title="A cache that changes the output",
    explanation="The second half of a sequence, run with the cache of the first, gives another output than "
    "in one pass: keys, values or positions of the cache are off, and what is generated is not what was "
    "trained.",
    source="f(x) = [f(x₁), f(x₂ | cache of x₁)] for a causal network",
    advice="Look at the positions of cached passes, at the order of concatenation, and at what is cut off.",
    thresholds={
        "cache_difference": Threshold(
            1e-2,
            "relative difference of the outputs",
            "rounding makes 1e-5 in float32, 5e-3 in bfloat16",
        )
    },
    when=(When("dependence.cache_difference", above="cache_difference"),),
    find=stale_cache,
)


def partly_frozen(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Frozen matrices in blocks that are trained."""
    facts = evidence.about("dependence")
    number = facts.number("partly_frozen") or 0
    yield PARTLY_FROZEN.finding(
        Severity.WARNING, score=number, num_weights=int(number),
        weights=facts.word("partly_frozen_names"),
    )  # fmt: skip


PARTLY_FROZEN = Rule(
    code="partly-frozen",
    stage=CausalStage.OPTIMIZER,
    cause="optimizer",
    title="Single weights that are frozen in blocks that are trained",
    explanation="Most of the block is trained and some of its matrices are not: requires_grad is False.",
    source="requires_grad",
    advice="If it is not meant, set requires_grad_(True); to freeze by design, silence this finding.",
    when=("dependence.partly_frozen",),
    find=partly_frozen,
)


def noise_in_forward(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Gaussian noise that is drawn in a pass for classes, beside whatever dropout there is."""
    number = evidence.about("mode").number("noise") or 0
    if number and evidence.about("output").holds("index_targets"):
        yield NOISE_IN_FORWARD.finding(Severity.WARNING, score=number, draws=number)


NOISE_IN_FORWARD = Rule(
    code="noise-in-forward",
    stage=CausalStage.MODE,
    cause="mode",
    title="A forward pass that draws Gaussian noise",
    explanation="The pass calls torch.randn or the like. As augmentation, or to sample a code, it is meant; "
    "in a residual stream it hides what the branches add.",
    source="torch.randn, randn_like, normal",
    advice="Draw noise in train mode only, and of a size below that of what it is added to.",
    reads=("mode", "output"),
    when=("mode.noise",),
    find=noise_in_forward,
)
