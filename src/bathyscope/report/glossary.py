"""Plain words for every quantity: what it is, what is good, why it matters, and how to draw it.

Keys are `measurement.column`. A column that is not listed is recognised by the words in its name,
and shown under its own name without a good or a bad side if none fits.
"""

from dataclasses import dataclass, replace
from typing import Literal

Scale = Literal["log", "linear", "share", "auto"]
Direction = Literal["high", "low", "away", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """How a quantity is told and drawn.

    Args:
        label: a few words for headings and strips.
        what: one sentence, what it is.
        good: what a healthy network shows.
        why: why it matters.
        scale: logarithmic, linear, a share of 0 to 1, or decided by the values.
        direction: which side is bad: high, low, away from `target`, or none.
        anchors: where colour begins and where it is full; for `away`, distances from the target
            (factors on a logarithmic scale). They decide colours, never findings.
        target: the best value where `direction` is `away`.
        main: drawn in the plots, the PNG and the terminal.
    """

    label: str
    what: str = ""
    good: str = ""
    why: str = ""
    scale: Scale = "auto"
    direction: Direction = "none"
    anchors: tuple[float, float] | None = None
    target: float = 1.0
    main: bool = False


_NOT_FINITE = Quantity(
    label="not finite",
    what="Share of the numbers that are infinite or NaN.",
    good="0.",
    why="One such number spoils every number computed from it.",
    scale="share",
    direction="high",
    anchors=(0.0, 0.01),
)
_CONDITION = Quantity(
    label="condition number",
    what="Largest over smallest singular value; infinite when the rank is not full.",
    good="Below about 1e3; in float32, above 1e7 nothing is left of the smallest direction.",
    why="Directions that are squeezed this much hardly reach the loss, and learn as slowly.",
    scale="log",
    direction="high",
    anchors=(1e3, 1e8),
)
_RANK = Quantity(
    label="numerical rank",
    what="How many singular values lie above the cut-off.",
    good="Close to the most that is possible.",
    why="A low rank means that samples or features have become the same.",
    scale="linear",
)
_STABLE_RANK = Quantity(
    label="stable rank",
    what="Sum of the squared singular values over the largest squared: how many directions carry weight.",
    good="Well above 1.",
    why="At 1 a single direction carries everything.",
    scale="log",
    direction="low",
    anchors=(2.0, 1.01),
)
_NORM = Quantity(label="norm", what="Euclidean length of all the numbers together.", scale="log")

GLOSSARY: dict[str, Quantity] = {
    "activations.mean": Quantity(
        label="activation mean",
        what="Mean of the block's output.",
        good="Small beside the standard deviation.",
        why="A mean that grows with depth drowns the differences between samples.",
        scale="linear",
    ),
    "activations.std": Quantity(
        label="activation spread",
        what="Standard deviation of the block's output.",
        good="About the same at every depth.",
        why="A spread that grows or shrinks by a factor a block explodes or dies over many blocks.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e5),
        main=True,
    ),
    "activations.dead": Quantity(
        label="dead units",
        what="Share of the units that give zero for every sample of the batch.",
        good="Below a half.",
        why="A dead unit passes no gradient and cannot recover.",
        scale="share",
        direction="high",
        anchors=(0.3, 1.0),
        main=True,
    ),
    "activations.not_finite": replace(_NOT_FINITE, label="activations not finite"),
    "representations.condition_number": replace(
        _CONDITION, label="representation condition", main=True
    ),
    "representations.rank": replace(_RANK, label="representation rank"),
    "representations.stable_rank": replace(_STABLE_RANK, label="representation stable rank"),
    "representations.cosine": Quantity(
        label="likeness of samples",
        what="Mean cosine between the outputs for two different samples.",
        good="Below about 0.9.",
        why="At 1 all samples look alike to the blocks behind: nothing is left to tell them apart.",
        scale="linear",
        direction="high",
        anchors=(0.9, 1.0),
        main=True,
    ),
    "gradients.norm_in": replace(
        _NORM,
        label="gradient at the input",
        what="‖∂E/∂x‖ at the block's input.",
        main=True,
    ),
    "gradients.norm_out": replace(
        _NORM, label="gradient at the output", what="‖∂E/∂x‖ at the block's output."
    ),
    "gradients.ratio": Quantity(
        label="gradient ratio",
        what="Gradient norm at the block's output over that at its input.",
        good="Near 1: the block preserves the norm.",
        why="A ratio away from 1 in every block multiplies over depth.",
        scale="log",
        direction="away",
        anchors=(1.5, 10.0),
        main=True,
    ),
    "gradients.product": Quantity(
        label="gradient product",
        what="Product of the ratios from the loss back to this block: growth since the loss.",
        good="Between 0.01 and 100 all the way.",
        why="Far above or below, first and last blocks learn at rates that no learning rate suits.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e6),
        main=True,
    ),
    "gradients.condition_number": replace(_CONDITION, label="gradient condition"),
    "gradients.rank": replace(_RANK, label="gradient rank"),
    "gradients.not_finite": replace(_NOT_FINITE, label="gradients not finite"),
    "weights.range": Quantity(
        label="weight range",
        what="Largest minus smallest weight of the block.",
        scale="log",
    ),
    "weights.frobenius_norm": replace(_NORM, label="weight norm", what="Frobenius norm."),
    "weights.spectral_norm": replace(
        _NORM, label="weight gain", what="Largest factor by which the weights stretch an input."
    ),
    "weights.condition_number": replace(_CONDITION, label="weight condition", main=True),
    "updates.relative": Quantity(
        label="relative update",
        what="‖ΔW‖/‖W‖ of the first step with this optimizer and learning rate.",
        good="About 1e-3; between 1e-5 and 1e-1.",
        why="Much larger overwrites the weights, much smaller leaves them where they are.",
        scale="log",
        direction="away",
        anchors=(30.0, 1e4),
        target=1e-3,
        main=True,
    ),
    "updates.rank": replace(_RANK, label="update rank"),
    "deletion.loss_change": Quantity(
        label="loss without it",
        what="Change of the loss when the block's residual branch is dropped.",
        good="Above 0 once trained.",
        why="A block whose loss does not change does no work.",
        scale="linear",
        main=True,
    ),
}

_BY_WORDS: tuple[tuple[tuple[str, ...], Quantity], ...] = (
    (("not_finite", "nonfinite", "non_finite"), _NOT_FINITE),
    (("condition",), _CONDITION),
    (("stable_rank",), _STABLE_RANK),
    (("rank",), _RANK),
    (("cosine",), GLOSSARY["representations.cosine"]),
    (("dead",), GLOSSARY["activations.dead"]),
    (("share", "fraction"), Quantity(label="", scale="share")),
    (("product",), GLOSSARY["gradients.product"]),
    (("ratio",), Quantity(label="", scale="log")),
    (("norm",), _NORM),
)


def quantity(key: str) -> Quantity:
    """The quantity under `measurement.column`.

    Example:
        >>> quantity("gradients.ratio").label
        'gradient ratio'
        >>> quantity("curvature.lowest_eigenvalue")  # doctest: +NORMALIZE_WHITESPACE
        Quantity(label='curvature lowest eigenvalue', what='', good='', why='', scale='auto',
            direction='none', anchors=None, target=1.0, main=False)
        >>> quantity("representations.channel_condition").direction
        'high'
    """
    if key in GLOSSARY:
        return GLOSSARY[key]
    label = key.replace("_", " ").replace(".", " ")
    column = key.rpartition(".")[2]
    for words, known in _BY_WORDS:
        if any(word in column for word in words):
            return replace(known, label=label, main=False)
    return Quantity(label=label)
