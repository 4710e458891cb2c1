"""The loss of networks that answer at every token, and where their classes lie."""

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def token_cross_entropy(
    output: Float[Tensor, " *n v"], targets: Int64[Tensor, " *n"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy over all tokens that have a target (others have −100).

    `F.cross_entropy` wants the classes on the second axis; transformers have them on the last. With
    one label per sample both are the same.

    Examples:
        >>> import torch
        >>> value = token_cross_entropy(torch.zeros(2, 3, 4), torch.zeros(2, 3).long())
        >>> round(float(value), 4)  # ln 4
        1.3863
    """
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())
