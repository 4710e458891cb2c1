"""Every residual branch starts at zero, so that the network starts as its shortcuts."""

import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.core.protocol import DeclaresBlocks
from bathyscope.inits.he import he_


def zero_branch_(
    model: nn.Module, *, reset: bool = True, generator: torch.Generator | None = None
) -> nn.Module:
    """Zero the last layer of each residual branch: x_{l+1} = shortcut(x_l) at the start.

    The last layer is the last one of the branch that has a weight: a normalization where the branch
    ends in one, else a convolution or a linear layer. Its bias is zeroed too. Blocks without a
    shortcut have no residual branch and are left as they are.

    Args:
        model: a network that declares its blocks (`block_names()`), whose residual blocks, or
            the parts of a block, hold a `branch` and a `shortcut`; changed in place.
        reset: draw He weights for the whole model first; `False` keeps all other weights.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The same model.

    Raises:
        UsageError: the model does not say what its blocks are.

    Examples:
        >>> from bathyscope import nets
        >>> net = zero_branch_(nets.build("prebasic-8"), reset=False)
        >>> x = torch.randn(2, 16, 8, 8)
        >>> torch.equal(net.blocks[0](x), x)
        True
    """
    if not isinstance(model, DeclaresBlocks):
        raise UsageError(
            f"zero_branch_ needs a network that declares its residual blocks, but "
            f"{type(model).__name__} has no block_names(); add one, or use another scheme."
        )
    if reset:
        he_(model, generator=generator)
    for name in model.block_names():
        for part in model.get_submodule(name).modules():
            branch = getattr(part, "branch", None)
            if branch is not None and getattr(part, "shortcut", None) is not None:
                for parameter in _last_layer(branch).parameters(recurse=False):
                    parameter.detach().zero_()
    return model


def _last_layer(branch: nn.Module) -> nn.Module:
    layers = [m for m in branch.modules() if isinstance(getattr(m, "weight", None), Tensor)]
    assert layers, "a residual branch has at least one layer with a weight"
    return layers[-1]
