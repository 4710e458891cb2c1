"""The losses a configuration can name, and the accuracy beside them."""

import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.batch import LossFn
from bathyscope.core.losses import class_axis
from bathyscope.training.config import TrainingConfig


def loss_of(config: TrainingConfig) -> LossFn:
    """The mean loss that the configuration names."""
    return F.cross_entropy if config.loss == "cross_entropy" else F.mse_loss


def num_correct(output: Tensor, targets: Tensor) -> Tensor | None:
    """How many samples have their greatest output at the label; None where targets are no labels.

    Examples:
        >>> import torch
        >>> int(num_correct(torch.eye(3), torch.tensor([0, 1, 0])))
        2
    """
    if targets.is_floating_point() or output.ndim != targets.ndim + 1:
        return None
    return (output.argmax(class_axis(output, targets)) == targets).count_nonzero()
