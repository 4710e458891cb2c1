"""The weights, the step that the optimizer takes, and what a block is worth to the loss."""

from dataclasses import replace

from bathyscope.core.quantity import Quantity
from bathyscope.measure.quantities.shapes import (
    condition_number,
    non_finite,
    rank_fraction,
    stable_rank,
)

_AXES = ("outputs", "inputs", "length", "depth", "height", "width")


def _weight_condition(axis: str) -> Quantity:
    result = condition_number(f"weights.condition_{axis}", f"weight condition number ({axis})")
    return replace(result, reducer="largest over layers")


# fmt: off
WEIGHTS: tuple[Quantity, ...] = (
    Quantity(key="weights.min", label="smallest weight",
        what="Of the block's matrices and kernels."),
    Quantity(key="weights.max", label="largest weight",
        what="Of the block's matrices and kernels."),
    Quantity(key="weights.norm", label="weight norm", reducer="all layers together",
        what="Frobenius norm of the block's weights together.",
        scale="log"),
    Quantity(key="weights.spectral_norm", label="spectral norm of the weights",
        reducer="largest over layers", over_depth="largest",
        what="The most by which a layer of the block can stretch its input.",
        good="Of order 1.",
        why="Gains multiply over depth.",
        scale="log"),
    Quantity(key="weights.condition_operator", label="weight condition number",
        reducer="largest over layers",
        what="Largest over smallest singular value above the tolerance, of a layer as an operator.",
        good="Below about 1e3.",
        why="What is squeezed this much hardly reaches the loss, and is learned as slowly.",
        scale="log", direction="high", anchors=(1e3, 1e8), role="main"),
    Quantity(key="weights.spread", label="range of the weights' singular values",
        reducer="largest over layers",
        what="How far the layers' singular values lie from the one that keeps the gradient's norm, "
        "as a fraction of it.",
        good="Near 0 where the Procrustes projection is on; about 0.5 for sampled weights.",
        why="A layer far off changes the norm of the gradient, for some directions more than others."),
    *(_weight_condition(axis) for axis in _AXES),
    rank_fraction("weights", "weight rank fraction"),
    Quantity(key="weights.worst_layer", label="worst layer",
        what="The layer of the block with the largest weight condition number."),
    Quantity(key="weights.lowest_rank_layer", label="layer of lowest rank",
        what="The layer of the block with the smallest rank fraction."),
    Quantity(key="weights.zero_layers", label="layers of zeros", unit="layers",
        what="How many layers of the block are zero throughout."),
    non_finite("weights"),
)
# fmt: on

# fmt: off
UPDATES: tuple[Quantity, ...] = (
    Quantity(key="updates.ratio", label="relative update of the block", reducer="all layers together",
        what="‖ΔW‖/‖W‖ of the next step with this optimizer and learning rate.",
        good="About 1e-3; between 1e-5 and 1e-1.",
        why="Much larger overwrites the weights, much smaller leaves them where they are.",
        scale="log", direction="away", anchors=(30.0, 1e4), target=1e-3),
    Quantity(key="updates.largest_ratio", label="relative update", reducer="largest over layers",
        over_depth="largest",
        what="‖ΔW‖/‖W‖ of the next step with this optimizer and learning rate.",
        good="About 1e-3; between 1e-5 and 1e-1.",
        why="One layer that is overwritten is enough to spoil the block.",
        scale="log", direction="away", anchors=(30.0, 1e4), target=1e-3, role="main"),
    Quantity(key="updates.largest_ratio_layer", label="fastest layer",
        what="The layer of the block with the largest relative update."),
    rank_fraction("updates", "update rank fraction"),
    Quantity(key="updates.rank_layer", label="layer of lowest update rank",
        what="The layer of the block with the smallest rank fraction."),
    stable_rank("updates", of="update "),
    Quantity(key="updates.lost", label="lost to rounding", unit="fraction",
        what="Fraction of the weights whose step is smaller than their rounding.",
        good="Below a half.",
        why="A step that is rounded away is never taken.",
        scale="fraction", direction="high", anchors=(0.3, 1.0)),
    Quantity(key="updates.below_epsilon", label="gradients below ε", unit="fraction",
        reducer="largest over layers",
        what="Fraction of the weights with a gradient whose second moment lies below Adam's ε.",
        good="0.",
        why="Their step is lr · g / ε, far smaller than the learning rate says.",
        scale="fraction", direction="high", anchors=(0.3, 1.0)),
    non_finite("updates"),
)
# fmt: on

# fmt: off
WORTH: tuple[Quantity, ...] = (
    Quantity(key="deletion.loss", label="loss without the block",
        what="With its residual branch dropped."),
    Quantity(key="deletion.loss_change", label="loss change without the block", unit="loss",
        what="Change of the loss when the block's residual branch is dropped.",
        good="Above 0 once trained.",
        why="A block whose absence changes nothing does no work.",
        scale="linear", role="main"),
    Quantity(key="curvature.largest", label="largest curvature",
        what="Largest eigenvalue of the Hessian of the loss in the block's own weights, at least.",
        good="Below 2 (1 + momentum) over the learning rate.",
        why="Steps overshoot along a direction that is curved more."),
    Quantity(key="curvature.smallest", label="smallest curvature",
        what="Smallest eigenvalue of that Hessian, at most; negative where the block is at a saddle.",
        scale="linear"),
    Quantity(key="curvature.trace", label="trace of the Hessian",
        what="Sum of the eigenvalues of that Hessian, estimated from a few random directions.",
        scale="linear"),
    Quantity(key="curvature.trace_error", label="standard error of the trace",
        what="Over the random directions."),
    Quantity(key="curvature.condition_number", label="condition number of the Hessian",
        what="Largest |eigenvalue| of that Hessian over the 10th percentile of all of them.",
        why="Along the flattest directions gradient descent takes as many times more steps.",
        scale="log"),
    Quantity(key="curvature.negative_index", label="fraction of negative curvature",
        what="Fraction of the eigenvalues of that Hessian that are negative.",
        scale="fraction"),
)
# fmt: on

LEARNING: tuple[Quantity, ...] = (*WEIGHTS, *UPDATES, *WORTH)
