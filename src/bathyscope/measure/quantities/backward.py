"""What a backward pass shows: the gradient at the blocks, and at their weights."""

from bathyscope.core.quantity import Quantity
from bathyscope.measure.quantities.shapes import non_finite, spectrum

# fmt: off
BACKWARD: tuple[Quantity, ...] = (
    Quantity(key="gradients.norm_in", label="gradient norm at the input", over_depth="range",
        what="‖∂E/∂x‖ at the block's input, over the whole batch.",
        good="Of one order of magnitude at every depth.",
        why="It decides how far the weights before it move.",
        scale="log", role="main"),
    Quantity(key="gradients.norm_out", label="gradient norm at the output",
        what="‖∂E/∂x‖ at the block's output, over the whole batch.",
        scale="log"),
    Quantity(key="gradients.ratio", label="gradient norm ratio",
        what="‖∂E/∂x_out‖ / ‖∂E/∂x_in‖ of the block (norm_preservation, section 4.1).",
        good="Near 1: the block preserves the norm.",
        why="Below 1 the gradient grows during backpropagation, above 1 it shrinks; over depth this "
        "multiplies.",
        scale="log", direction="away", anchors=(1.5, 10.0), role="main"),
    Quantity(key="gradients.ratio_from_loss", label="cumulative gradient ratio",
        what="Gradient norm at the end of the last block over that at this block's input: the product "
        "of the ratios from here on.",
        good="Between 1/30 and 30 all the way.",
        why="Far above 1 the gradient has vanished during backpropagation down to this block, far below "
        "1 it has exploded.",
        scale="log", direction="away", anchors=(30.0, 1e6), role="main"),
    *spectrum("gradients", of="gradient "),
    Quantity(key="gradients.over_time", label="gradient over time",
        what="Of a recurrent layer, the gradient norm at the first tenth of the time steps over that "
        "at the last.",
        scale="log"),
    non_finite("gradients"),
    Quantity(key="parameter_gradients.norm", label="gradient norm of the weights",
        reducer="all layers together",
        what="‖∂E/∂W‖ of all matrices and kernels of the block together.",
        good="Of one order of magnitude at every depth.",
        why="It is what the optimizer moves the block by.",
        scale="log"),
    Quantity(key="parameter_gradients.fraction", label="fraction of the largest gradient",
        reducer="all layers together",
        what="The gradient norm of the block's weights over that of the block with the largest.",
        good="Above 1e-3 at every depth.",
        why="A block far below the others hardly learns.",
        scale="log"),
    Quantity(key="parameter_gradients.zero_layers", label="layers without gradient", unit="layers",
        what="How many matrices and kernels of the block have a gradient of zero throughout."),
    Quantity(key="parameter_gradients.scale_fraction",
        label="fraction of the largest gradient (scales of norms)",
        what="The same fraction, over the scales of the block's norms.",
        why="A branch that is initialized to zero by the scale of its last norm moves through this "
        "gradient.",
        scale="log"),
)
# fmt: on
