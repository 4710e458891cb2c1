"""Plain words for every quantity: what it is, what is good, why it matters.

Keys are `measurement.column`. A column measured in several modes (`condition_samples`) is looked up
without its mode too. One that is not listed is recognised by the words in its name, and shown under
its own name without a good or a bad side where none fits.
"""

from dataclasses import replace

from bathyscope.report.glossary_attention import ATTENTION
from bathyscope.report.quantity import Quantity

MODES = ("samples", "features", "channels", "height", "width", "tokens", "inputs", "outputs")

_NOT_FINITE = Quantity(
    label="not finite",
    what="Share of the numbers that are infinite or NaN.",
    good="0.",
    why="One such number spoils every number that is computed from it.",
    scale="share",
    direction="high",
    anchors=(0.0, 0.01),
)
_CONDITION = Quantity(
    label="condition",
    what="Largest over smallest singular value; infinite where a direction is lost, which over channels "
    "and features a block that widens brings about by itself.",
    good="Below about 1e3. Above 1e7, float32 keeps nothing of the smallest direction.",
    why="What is squeezed this much hardly reaches the loss, and is learned as slowly.",
    scale="log",
    direction="high",
    anchors=(1e3, 1e8),
)
_EFFECTIVE = replace(
    _CONDITION,
    label="effective condition",
    what="Largest over smallest singular value among those above the cut-off.",
)
_RANK = Quantity(
    label="rank",
    what="How many singular values lie above the cut-off.",
    good="Close to the full rank.",
    why="A low rank means that samples or features have become alike.",
    scale="linear",
)
_RANK_SHARE = replace(
    _RANK,
    label="rank share",
    what="Numerical rank as a share of the full rank.",
    good="Close to 1.",
    scale="share",
    direction="low",
    anchors=(0.5, 0.02),
)
_STABLE_RANK = Quantity(
    label="stable rank",
    what="Sum of the squared singular values over the largest: how many directions carry weight.",
    good="Well above 1.",
    why="At 1 a single direction carries everything.",
    scale="log",
    direction="low",
    anchors=(1.5, 1.0),
)
_NORM = Quantity(label="norm", what="Euclidean length of all the numbers together.", scale="log")
_CUTOFF = Quantity(
    label="cut-off",
    what="Singular values below this share of the largest count as zero.",
    role="setting",
)
_FULL_RANK = Quantity(
    label="full rank", what="The most that the rank could be.", scale="linear", role="setting"
)
_COSINE = Quantity(
    label="likeness of samples",
    what="Mean cosine between the outputs for two different samples.",
    good="Below about 0.9.",
    why="At 1 all samples look alike to the blocks behind: nothing is left to tell them apart.",
    scale="linear",
    direction="high",
    anchors=(0.9, 1.0),
    role="main",
)
_DEAD = Quantity(
    label="dead units",
    what="Share of the units that give one and the same value for the whole batch.",
    good="Below about 0.3.",
    why="A dead unit passes no gradient and does not recover by itself.",
    scale="share",
    direction="high",
    anchors=(0.3, 1.0),
    role="main",
)

GLOSSARY: dict[str, Quantity] = {
    "activations.mean": Quantity(
        label="activation mean",
        what="Mean of the block's output.",
        good="Small beside the spread.",
        why="A mean that grows with depth drowns the differences between samples.",
        scale="linear",
    ),
    "activations.std": Quantity(
        label="activation spread",
        what="Standard deviation of the block's output.",
        good="About the same at every depth.",
        why="A factor a block explodes, or dies, over many blocks.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e5),
        role="main",
    ),
    "activations.min": Quantity(label="smallest activation", what="Of the block's output."),
    "activations.max": Quantity(label="largest activation", what="Of the block's output."),
    "activations.dead_units": _DEAD,
    "activations.change": Quantity(
        label="change by the block",
        what="‖output − input‖ / ‖input‖: how strong the residual branch is.",
        good="Above 0, and smaller the deeper the network.",
        why="At 0 the block does nothing; far above 1 its shortcut no longer counts.",
        scale="log",
    ),
    "activations.not_finite": replace(_NOT_FINITE, label="activations not finite"),
    "representations.condition": _CONDITION,
    "representations.effective_condition": _EFFECTIVE,
    "representations.rank": _RANK,
    "representations.full_rank": _FULL_RANK,
    "representations.stable_rank": _STABLE_RANK,
    "representations.cutoff": _CUTOFF,
    "representations.mean_cosine": _COSINE,
    "representations.collapse": replace(
        _COSINE,
        label="distance from collapse",
        what="One minus the mean cosine between two samples, without the offset their entries share.",
        good="Above about 0.1.",
        scale="log",
        direction="low",
        anchors=(0.1, 1e-4),
        role="detail",
    ),
    "gradients.norm_in": replace(
        _NORM,
        label="gradient at the input",
        what="‖∂E/∂x‖ at the block's input, over the whole batch.",
        good="Of one order of magnitude at every depth.",
        why="It decides how far the weights before it move.",
        role="main",
    ),
    "gradients.norm_out": replace(
        _NORM,
        label="gradient at the output",
        what="‖∂E/∂x‖ at the block's output, over the whole batch.",
    ),
    "gradients.ratio": Quantity(
        label="gradient growth",
        what="Gradient norm at the block's input over that at its output: one over the ratio of "
        "norm_preservation, which tables and JSON hold.",
        good="Near 1: the block preserves the norm.",
        why="Above 1 the gradient grows on its way back, below 1 it shrinks; over depth this multiplies.",
        scale="log",
        direction="away",
        anchors=(1.5, 10.0),
        role="main",
        inverse=True,
    ),
    "gradients.ratio_from_loss": Quantity(
        label="growth from the loss",
        what="Gradient norm at the block's input over that at the end of the last block: the factor that "
        "findings tell.",
        good="Between 0.01 and 100 all the way.",
        why="Far above 1 the gradient has exploded before it gets here, far below it has vanished.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e6),
        role="main",
        inverse=True,
    ),
    "gradients.condition": replace(_CONDITION, label="gradient condition"),
    "gradients.effective_condition": replace(_EFFECTIVE, label="effective gradient condition"),
    "gradients.rank": replace(_RANK, label="gradient rank"),
    "gradients.full_rank": replace(_FULL_RANK, label="full gradient rank"),
    "gradients.stable_rank": replace(_STABLE_RANK, label="gradient stable rank"),
    "gradients.cutoff": replace(_CUTOFF, label="gradient cut-off"),
    "gradients.not_finite": replace(_NOT_FINITE, label="gradients not finite"),
    "weights.min": Quantity(label="smallest weight", what="Of the block's matrices and kernels."),
    "weights.max": Quantity(label="largest weight", what="Of the block's matrices and kernels."),
    "weights.norm": replace(
        _NORM, label="weight norm", what="Frobenius norm of the block's weights together."
    ),
    "weights.spectral_norm": replace(
        _NORM,
        label="weight gain",
        what="The most by which a layer of the block can stretch its input.",
        good="Of order 1.",
        why="Gains multiply over depth.",
    ),
    "weights.condition_operator": replace(_EFFECTIVE, label="weight condition", role="main"),
    "weights.spread": Quantity(
        label="weight spread",
        what="How far the layers' singular values lie from the one that keeps the gradient's norm, "
        "as a share of it.",
        good="Near 0 where the Procrustes projection is on; about 0.5 for drawn weights.",
        why="A layer far off changes the norm of the gradient, for some directions more than others.",
    ),
    "weights.condition": replace(_CONDITION, label="weight condition"),
    "weights.rank_share": replace(_RANK_SHARE, label="weight rank share"),
    "weights.worst_layer": Quantity(
        label="worst layer", what="The layer of the block with the largest weight condition."
    ),
    "parameter_gradients.norm": replace(
        _NORM,
        label="gradient of the weights",
        what="‖∂E/∂W‖ of all matrices and kernels of the block together.",
        good="Of one order of magnitude at every depth.",
        why="It is what the optimizer moves the block by.",
    ),
    "parameter_gradients.share": Quantity(
        label="share of the largest gradient",
        what="The gradient of the block's weights as a share of that of the block with the largest.",
        good="Above 1e-3 at every depth.",
        why="A block far below the others hardly learns.",
        scale="log",
    ),
    "parameter_gradients.zero_layers": Quantity(
        label="layers without gradient",
        what="How many matrices and kernels of the block have a gradient of zero throughout.",
    ),
    "parameter_gradients.scale_share": Quantity(
        label="share of the largest gradient, scales",
        what="The same share, over the scales of the block's norms.",
        why="A branch that starts at zero by the scale of its last norm moves through this gradient.",
        scale="log",
    ),
    "normalisation.variance_over_epsilon": Quantity(
        label="variance before a norm",
        what="Least variance that reaches a batch norm of the block, in units of the norm's ε.",
        good="Far above 1.",
        why="Below 1 the norm divides by its ε instead of the deviation, and hides a dying signal.",
        scale="log",
    ),
    "normalisation.layer": Quantity(
        label="norm of least variance", what="The batch norm of the block that gets it."
    ),
    "weights.zero_layers": Quantity(
        label="layers of zeros", what="How many layers of the block are zero throughout."
    ),
    "weights.not_finite": replace(_NOT_FINITE, label="weights not finite"),
    "updates.ratio": Quantity(
        label="relative update of all",
        what="‖ΔW‖/‖W‖ of the next step with this optimizer and learning rate, over the whole block.",
        good="About 1e-3; between 1e-5 and 1e-1.",
        why="Much larger overwrites the weights, much smaller leaves them where they are.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e4),
        target=1e-3,
    ),
    "updates.largest_ratio": Quantity(
        label="relative update",
        what="‖ΔW‖/‖W‖ of the next step, of the layer of the block that moves most.",
        good="About 1e-3; between 1e-5 and 1e-1.",
        why="One layer that is overwritten is enough to spoil the block.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e4),
        target=1e-3,
        role="main",
    ),
    "updates.largest_ratio_layer": Quantity(
        label="fastest layer", what="The layer of the block with the largest relative update."
    ),
    "updates.rank_layer": Quantity(
        label="lowest update rank", what="The layer of the block with the smallest rank share."
    ),
    "updates.rank_share": replace(_RANK_SHARE, label="update rank share"),
    "updates.stable_rank": replace(_STABLE_RANK, label="update stable rank"),
    "updates.lost": Quantity(
        label="lost to rounding",
        what="Share of the weights whose step is smaller than their rounding.",
        good="Below a half.",
        why="A step that is rounded away is never taken.",
        scale="share",
        direction="high",
        anchors=(0.3, 1.0),
    ),
    "updates.not_finite": replace(_NOT_FINITE, label="updates not finite"),
    "deletion.loss": Quantity(label="loss without the block", what="With its branch dropped."),
    "deletion.loss_change": Quantity(
        label="loss change without it",
        what="Change of the loss when the block's residual branch is dropped.",
        good="Above 0 once trained.",
        why="A block whose absence changes nothing does no work.",
        scale="linear",
        role="main",
    ),
    "curvature.largest": Quantity(
        label="greatest curvature",
        what="Greatest eigenvalue of the Hessian of the loss in the block's own weights, at least.",
        good="Below 2 (1 + momentum) over the learning rate.",
        why="Steps overshoot along a direction that is curved more.",
    ),
    "curvature.smallest": Quantity(
        label="least curvature",
        what="Least eigenvalue of that Hessian, at most; negative where the block is at a saddle.",
        scale="linear",
    ),
    "curvature.trace": Quantity(
        label="summed curvature",
        what="Sum of the eigenvalues of that Hessian, estimated from a few random directions.",
        scale="linear",
    ),
    "curvature.trace_error": Quantity(
        label="its standard error", what="Of the summed curvature, over the random directions."
    ),
    "curvature.condition_number": Quantity(
        label="condition of the curvature",
        what="Largest |eigenvalue| of that Hessian over the 10th percentile of all of them.",
        why="Along the flattest directions gradient descent takes as many times more steps.",
        scale="log",
    ),
    "curvature.negative_index": Quantity(
        label="share of negative curvature",
        what="Share of the eigenvalues of that Hessian that are negative.",
        scale="share",
    ),
    **ATTENTION,
}

# the other modes are singular by design wherever a block widens: no sign of trouble
_MAIN_MODES = ("representations.condition_samples",)

_BY_WORDS: tuple[tuple[tuple[str, ...], Quantity], ...] = (
    (("not_finite", "nonfinite", "non_finite"), _NOT_FINITE),
    (("cutoff", "cut_off"), _CUTOFF),
    (("effective_condition",), _EFFECTIVE),
    (("condition",), _CONDITION),
    (("rank_share",), _RANK_SHARE),
    (("stable_rank",), _STABLE_RANK),
    (("full_rank",), _FULL_RANK),
    (("rank",), _RANK),
    (("cosine",), _COSINE),
    (("dead",), _DEAD),
    (("share", "fraction"), Quantity(label="", scale="share")),
    (("ratio",), Quantity(label="", scale="log")),
    (("norm",), _NORM),
)


def quantity(key: str) -> Quantity:
    """The quantity under `measurement.column`.

    Examples:
        >>> quantity("gradients.ratio").label
        'gradient growth'
        >>> quantity("representations.condition_samples").label
        'condition (samples)'
        >>> quantity("curvature.lowest_eigenvalue").label
        'curvature lowest eigenvalue'
        >>> quantity("own.condition_of_blocks").direction
        'high'
    """
    if key in GLOSSARY:
        return GLOSSARY[key]
    stem, _, mode = key.rpartition("_")
    if mode in MODES and stem in GLOSSARY:
        known = GLOSSARY[stem]
        role = "main" if key in _MAIN_MODES else known.role
        return replace(known, label=f"{known.label} ({mode})", role=role)
    label = key.replace("_", " ").replace(".", " ")
    column = key.rpartition(".")[2]
    for words, known in _BY_WORDS:
        if any(word in column for word in words):
            role = "setting" if known.role == "setting" else "detail"
            return replace(known, label=label, role=role)
    return Quantity(label=label)
