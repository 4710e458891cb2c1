"""The loss of networks that answer at every token, and where their classes lie."""

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def token_cross_entropy(
    output: Float[Tensor, " *n v"], targets: Int64[Tensor, " *n"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy over all tokens that have a target (others have −100).

    `F.cross_entropy` wants the classes on the second axis; transformers have them on the last. With
    one label a sample both are the same.

    Examples:
        >>> import torch
        >>> value = token_cross_entropy(torch.zeros(2, 3, 4), torch.zeros(2, 3).long())
        >>> round(float(value), 4)  # ln 4
        1.3863
    """
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


def class_axis(output: Tensor, targets: Tensor) -> int:
    """The axis of the classes: the last of (samples, tokens, classes) with a label a token, else 1.

    Where there are as many tokens as classes nothing tells them apart, and it is 1 as torch has it.

    Examples:
        >>> import torch
        >>> class_axis(torch.zeros(2, 3, 4), torch.zeros(2, 3).long())
        -1
        >>> class_axis(torch.zeros(2, 4, 3), torch.zeros(2, 3).long())
        1
    """
    of_tokens = output.shape[:-1] == targets.shape and output.shape[2:] != targets.shape[1:]
    return -1 if of_tokens else 1
