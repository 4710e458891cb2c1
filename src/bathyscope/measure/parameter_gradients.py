"""The gradient that arrives at the weights of each block."""

import math
from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.one_pass import probe
from bathyscope.core.records import Measurement
from bathyscope.linalg import frobenius_norm
from bathyscope.measure.blocks import found_blocks
from bathyscope.measure.layers import parameters_of
from bathyscope.measure.rows import Rows


def parameter_gradients(
    model: nn.Module, batch: Batch, *, loss: LossFn, blocks: Iterable[str] | Blocks | None = None
) -> Measurement:
    """Norm of the gradient of every block's matrices and kernels, and how it compares.

    Columns, one value a block, over its weights with two axes or more:
        norm: ‖∂E/∂W‖ of all of them together; None where the block has none, or none is trained.
        share: the norm as a share of the largest of all blocks.
        zero_layers: how many of them have a gradient of zero throughout.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        >>> with torch.no_grad():
        ...     _ = model[1].weight.zero_()
        >>> found = parameter_gradients(model, (torch.ones(1, 2), None), loss=lambda y, _: y.sum())
        >>> found["zero_layers"]
        (1, 0)
    """
    found = found_blocks(model, batch, blocks)
    return parameter_gradient_measurement(
        model, found, probe(model, batch, loss=loss, blocks=found).gradients
    )


def parameter_gradient_measurement(
    model: nn.Module, blocks: Blocks, gradients: Mapping[str, Tensor]
) -> Measurement:
    """The measurement `parameter_gradients`, given the gradients of a pass by parameter name."""
    rows = Rows(blocks, ("norm", "share", "zero_layers"))
    norms: dict[int, float] = {}
    for block in blocks:
        trained = {
            name: parameter
            for name, parameter in parameters_of(model, block).items()
            if parameter.ndim >= 2 and parameter.requires_grad
        }
        if not trained:
            continue
        # a parameter that the loss does not reach has no gradient: that is zero
        of_layers = [frobenius_norm(gradients[n]) if n in gradients else 0.0 for n in trained]
        norms[block.index] = math.hypot(*of_layers)
        rows.put(block, norm=norms[block.index], zero_layers=sum(n == 0 for n in of_layers))
    largest = max((n for n in norms.values() if math.isfinite(n)), default=0.0)
    for block in blocks:
        if block.index in norms:
            rows.put(block, share=norms[block.index] / largest if largest else 0.0)
    return rows.measurement("parameter_gradients")
