"""The losses a configuration can name, and the accuracy beside them."""

import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.batch import LossFn
from bathyscope.core.losses import IGNORED, token_cross_entropy
from bathyscope.core.nested import class_axis
from bathyscope.training.config import TrainingConfig


def loss_of(config: TrainingConfig) -> LossFn:
    """The mean loss that the configuration names."""
    return _LOSSES[config.loss]


def num_correct(output: Tensor, targets: Tensor) -> Tensor | None:
    """How many samples have their largest output at the label; None where targets are not labels.

    Of samples with a label for each of their tokens: the fraction of the known labels (others are below
    zero) that are right, times the samples.

    Examples:
        >>> import torch
        >>> int(num_correct(torch.eye(3), torch.tensor([0, 1, 0])))
        2
    """
    if targets.is_floating_point() or output.ndim != targets.ndim + 1:
        return None
    right = (output.argmax(class_axis(output, targets)) == targets).count_nonzero()
    if targets.ndim == 1:
        return right
    return right * len(targets) / (targets >= 0).count_nonzero().clamp(min=1)


def num_judged(targets: Tensor) -> int:
    """Over how many targets a mean loss is taken: samples, or labels that are not −100.

    Examples:
        >>> import torch
        >>> num_judged(torch.tensor([[3, 1], [2, -100]])), num_judged(torch.zeros(2, 5))
        (3, 2)
    """
    if targets.is_floating_point():
        return len(targets)
    return int((targets != IGNORED).count_nonzero())


_LOSSES: dict[str, LossFn] = {
    "cross_entropy": F.cross_entropy,
    "token_cross_entropy": token_cross_entropy,
    "mse": F.mse_loss,
}
