"""What can be found in transformers, and the numbers that decide it; `codes` and `thresholds` hold both."""

from bathyscope.core.records import Cause

Entries = dict[str, tuple[Cause, str, str, str, str | None, tuple[str, ...]]]

ATTENTION_FAULTS: Entries = {
    "masked-row": (
        "data-flow",
        "Queries that may look at nothing",
        "A softmax over no key at all is 0/0: some kernels give NaN, others zeros, and the token "
        "learns nothing from its sequence.",
        "softmax of −∞ alone",
        "Let every query see one key at least, itself for instance; look at padding on the left.",
        ("not-finite",),
    ),
    "missing-attention-scale": (
        "architecture",
        "Attention without its 1/√d",
        "Scalar products of d features grow as √d: the softmax starts saturated and passes no "
        "gradient to queries and keys.",
        "Vaswani et al. 2017, section 3.2.1",
        "Divide the scores by √d, or normalise queries and keys.",
        ("entropy-collapse", "attention-logit-growth"),
    ),
    "embedding-scale": (
        "initialisation",
        "An embedding far too large",
        "Tied to the output it makes logits of that size, so that training starts far worse than a "
        "guess; in front of a stream it drowns what the branches add.",
        "Press and Wolf 2017; GPT-2 draws it at 0.02",
        "Draw or rescale the table to a deviation of 0.02, or normalise after it.",
        ("output-logit-drift", "stream-outgrows-branches"),
    ),
    "dead-heads": (
        "initialisation",
        "Heads that do nothing",
        "A head whose values are zero, or that the output layer ignores, adds nothing and learns nothing.",
        "the product of zero and anything",
        "Draw values and output layer of the block anew.",
        (),
    ),
}
"""Faults of the attention itself: they stand before those of the weights."""

ATTENTION_SYMPTOMS: Entries = {
    "entropy-collapse": (
        "initialisation",
        "Attention that has collapsed to single keys",
        "Rows that give one key all their weight pass no gradient back through the softmax: the choice "
        "can no longer be learnt, and a small change of the scores makes the output jump.",
        "Zhai et al. 2023 (σReparam); Dehghani et al. 2023 (ViT-22B)",
        "Normalise queries and keys (QK-norm), lower the learning rate, warm up.",
        (),
    ),
    "attention-logit-growth": (
        "learning-rate",
        "Attention logits that have grown large",
        "Logits of this size round coarsely in short formats and are on the way to one-hot rows, the "
        "usual herald of a loss that jumps.",
        "Dehghani et al. 2023 (ViT-22B); Wortsman et al. 2023",
        "Normalise queries and keys (QK-norm), lower the learning rate.",
        (),
    ),
    "uniform-attention": (
        "initialisation",
        "Attention that cannot choose",
        "All keys get the same weight whatever the tokens are, and hardly any gradient reaches queries "
        "and keys to change it: the heads are averages.",
        "the gradient of q·k at q = k = 0 is zero",
        "Draw queries and keys anew.",
        (),
    ),
    "token-collapse": (
        "architecture",
        "All tokens of a sequence look alike",
        "Attention averages; without skips or with weak ones the tokens of a sequence become one vector, "
        "and nothing after this block can tell positions apart.",
        "Dong et al. 2021 (rank collapse, doubly exponential in depth)",
        "Skips around attention; smaller attention branches (LayerScale, ReZero).",
        ("singular-representation", "collapsed-representation"),
    ),
    "stream-outgrows-branches": (
        "initialisation",
        "A stream that has outgrown its branches",
        "What the later blocks add is lost beside the stream, and behind a norm their gradient is divided "
        "by its size: they hardly learn.",
        "Xiong et al. 2020; Peri-LN 2025",
        "Rescale what made the stream large (the named block, or the embedding); norms after the branches.",
        (),
    ),
    "post-norm-imbalance": (
        "learning-rate",
        "A post-norm network whose first steps add up",
        "Behind each norm of the sum a branch weighs as much as the stream, so the changes of all branches "
        "add up at the output, in proportion to depth: without a warm-up the first steps throw it "
        "away, and it ends on a plateau.",
        "Liu et al. 2020 (Admin); Xiong et al. 2020; Wang et al. 2022 (DeepNorm)",
        "Warm-up, a lower learning rate, norms before the branches (pre-norm), or DeepNorm's scales.",
        ("large-update",),
    ),
    "output-logit-drift": (
        "output",
        "Logits far from zero",
        "A softmax does not see a common offset and nothing else holds it; large logits round coarsely, and "
        "where they differ much the loss starts or jumps far above a guess.",
        "Chowdhery et al. 2022 (PaLM, z-loss); Wortsman et al. 2023",
        "z-loss: add 1e-4·(log Z)²; rescale the head; weight decay on it.",
        (),
    ),
    "positions-unused": (
        "architecture",
        "Positions carry nothing",
        "The output is the same whatever the order of the tokens: the network sees a bag of them.",
        "attention without positions is equivariant to permutations",
        "Add positions (learned, rotary), or look why the table is not added; right for sets.",
        (),
    ),
}
"""What attention and stream show, whatever in the weights made them so: behind those."""

ATTENTION_CODES: Entries = ATTENTION_FAULTS | ATTENTION_SYMPTOMS

_SOFTMAX = "exp(−200) is zero in every format; logits of 200 are spaced 1 apart in bfloat16"

ATTENTION_THRESHOLDS: dict[str, tuple[float, str, str]] = {
    "one_hot_rows": (
        0.9,
        "share of a block's rows that give one key 0.99 of their weight",
        "tuned",
    ),
    "attention_logit": (200.0, "largest |q·k·scale|", _SOFTMAX),
    "attention_logit_warning": (
        50.0,
        "the same, worth a look",
        "Dehghani et al. 2023: stable ViTs stay below 50",
    ),
    "uniform_logit_std": (
        1e-4,
        "deviation of a row's scores",
        "healthy starts have 1e-2 and more",
    ),
    "choice_gradient": (
        1e-3,
        "gradient at queries or keys over that at values, where attention is uniform",
        "tuned",
    ),
    "token_spread": (0.05, "‖X − 1x̄ᵀ‖/‖X‖ of a sequence's tokens", "tuned"),
    "dead_heads": (0.5, "share of a block's heads; fewer are a warning", "tuned"),
    "missing_scale": (
        2.0,
        "factor on q·k, times √d, where the scores deviate by 2.5 and more",
        "without 1/√d it is √d, from 2.8 at d = 8",
    ),
    "branch_share": (0.01, "‖branch‖/‖stream‖ of a branch that is not small itself", "tuned"),
    "amplified_update": (
        0.5,
        "Σ over post-norm branches of ‖ΔW‖/‖W‖ of the first step",
        "Liu et al. 2020: the changes of all branches add up",
    ),
    "amplified_update_warning": (0.25, "the same, worth a look", "tuned"),
    "log_z": (50.0, "|log Z − ln v| of the output", _SOFTMAX),
    "output_std": (20.0, "deviation of a row of the output's logits", "tuned"),
    "tied_output_std": (
        5.0,
        "the same where the output is tied to the embedding",
        "a table of deviation 0.02 gives 0.02·√d",
    ),
    "position_effect": (
        1e-4,
        "relative change of the output when tokens change places",
        "rounding",
    ),
}
