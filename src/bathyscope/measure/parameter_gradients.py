"""The gradient that arrives at the weights of each block."""

import math
from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.members import Members
from bathyscope.core.one_pass import probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import frobenius_norm
from bathyscope.measure.blocks import find_blocks
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
        scale_share: the norm over the block's scales (weights of norms, with one axis), as a share of
            the largest of all blocks; None where it has none.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.

    Examples:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        >>> with torch.no_grad():
        ...     _ = model[1].weight.zero_()
        >>> found = parameter_gradients(model, (torch.ones(1, 2), None), loss=lambda y, _: y.sum())
        >>> found["zero_layers"]
        (1, 0)
    """
    found = find_blocks(model, batch, blocks)
    return parameter_gradient_measurement(
        model, found, probe(model, batch, loss=loss, blocks=found).gradients
    )


def parameter_gradient_measurement(
    model: nn.Module, blocks: Blocks, gradients: Mapping[str, Tensor]
) -> Measurement:
    """The measurement `parameter_gradients`, given the gradients of a pass by parameter name."""
    rows = Rows(blocks, ("norm", "share", "zero_layers", "scale_share"))
    members = Members(model)
    norms: dict[int, float] = {}
    scales: dict[int, float] = {}
    for block in blocks:
        # a parameter that the loss does not reach has no gradient: that is zero
        of_layers, of_scales = (
            [frobenius_norm(gradients[n]) if n in gradients else 0.0 for n in names]
            for names in _trained_names(members, block)
        )
        if of_layers:
            norms[block.index] = math.hypot(*of_layers)
            rows.put(block, norm=norms[block.index], zero_layers=sum(n == 0 for n in of_layers))
        if of_scales:
            scales[block.index] = math.hypot(*of_scales)
    for column, values in (("share", norms), ("scale_share", scales)):
        largest = max((v for v in values.values() if math.isfinite(v)), default=0.0)
        for block in blocks:
            if block.index in values:
                rows.put(block, **{column: values[block.index] / largest if largest else 0.0})
    return rows.measurement("parameter_gradients")


def _trained_names(model: Members, block: Block) -> tuple[list[str], list[str]]:
    """Names of the block's trained weights with two axes or more, and of its scales."""
    trained = {n: p for n, p in parameters_of(model, block).items() if p.requires_grad}
    layers = [name for name, p in trained.items() if p.ndim >= 2]
    scales = [name for name, p in trained.items() if p.ndim == 1 and not name.endswith("bias")]
    return layers, scales
