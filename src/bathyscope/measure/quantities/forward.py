"""What a forward pass shows: activations, representations, and what reaches the norms."""

from dataclasses import replace

from bathyscope.core.quantity import Quantity
from bathyscope.measure.quantities.shapes import non_finite, spectrum

_MODES = ("samples", "features", "channels", "height", "width", "tokens")
_COSINE = Quantity(
    key="representations.mean_cosine",
    label="cosine similarity of samples",
    over_depth="largest",
    what="Mean cosine between the outputs for two different samples.",
    good="Below about 0.9.",
    why="At 1 all samples look the same to the blocks behind, which cannot distinguish them.",
    scale="linear",
    direction="high",
    anchors=(0.9, 1.0),
    role="main",
)


def _representations(mode: str) -> tuple[Quantity, ...]:
    condition, *others = spectrum("representations", mode=mode)
    # the other modes are singular by design wherever a block widens: no sign of trouble
    role = "main" if mode == "samples" else condition.role
    return replace(condition, role=role), *others


# fmt: off
FORWARD: tuple[Quantity, ...] = (
    Quantity(key="activations.mean", label="activation mean",
        what="Mean of the block's output.",
        good="Small beside the standard deviation.",
        why="A mean that grows with depth drowns the differences between samples.",
        scale="linear"),
    Quantity(key="activations.std", label="activation standard deviation",
        what="Standard deviation of the block's output.",
        good="About the same at every depth.",
        why="A factor per block explodes, or vanishes, over many blocks.",
        scale="log", direction="away", anchors=(30.0, 1e5), role="main"),
    Quantity(key="activations.min", label="smallest activation", what="Of the block's output."),
    Quantity(key="activations.max", label="largest activation", what="Of the block's output."),
    Quantity(key="activations.dead_units", label="dead units", unit="fraction",
        reducer="largest over activation functions", over_depth="largest",
        what="Fraction of the units that give one and the same value for the whole batch.",
        good="Below about 0.3.",
        why="A dead unit passes no gradient and does not recover by itself.",
        scale="fraction", direction="high", anchors=(0.3, 1.0), role="main"),
    Quantity(key="activations.nonlinearity", label="activation function",
        what="The last activation function that the block calls."),
    Quantity(key="activations.change", label="change by the block",
        what="‖output − input‖ / ‖input‖: how strong the residual branch is.",
        good="Above 0, and smaller the deeper the network.",
        why="At 0 the block does nothing; far above 1 its shortcut no longer counts.",
        scale="log"),
    non_finite("activations"),
    _COSINE,
    replace(
        _COSINE,
        key="representations.collapse",
        label="distance from collapse",
        over_depth="",
        what="One minus the mean cosine between two samples, after their common offset is removed.",
        good="Above about 0.1.",
        scale="log",
        direction="low",
        anchors=(0.1, 1e-4),
        role="detail",
    ),
    *(quantity for mode in _MODES for quantity in _representations(mode)),
    Quantity(key="normalization.variance_over_epsilon", label="variance before a norm",
        unit="ε of the norm", reducer="smallest over layers",
        what="Smallest variance that reaches a batch norm of the block, in units of the norm's ε.",
        good="Far above 1.",
        why="Below 1 the norm divides by its ε instead of the standard deviation, and hides a "
        "vanishing signal.",
        scale="log"),
    Quantity(key="normalization.layer", label="norm of smallest variance",
        what="The batch norm of the block that receives it."),
)
# fmt: on
