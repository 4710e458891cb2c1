"""A loss as a function of one tensor of the output, so that it can be tried on other outputs."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass

import torch
from torch import Tensor

from bathyscope.core.batch import LossFn
from bathyscope.core.nested import map_tensors


@dataclass(frozen=True, slots=True, eq=False)
class LossOnOutput:
    """A loss with its targets, and the output around the tensor that is replaced."""

    loss: LossFn
    output: object
    tensor: Tensor
    targets: object

    def value(self, y: Tensor) -> Tensor | None:
        """The loss with that tensor replaced; None where it raises or is not a single number."""
        replaced = map_tensors(self.output, lambda t: y if t is self.tensor else t.detach())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the user has seen them in the pass before
                result = self.loss(replaced, self.targets)
        except Exception:  # a user's own loss may raise anything on an output it did not expect
            return None
        if not isinstance(result, Tensor) or result.numel() != 1:
            return None
        return result.reshape(())

    def number(self, y: Tensor) -> float | None:
        """As `value`, without a graph."""
        with torch.no_grad():
            result = self.value(y)
        return None if result is None else float(result)

    def gradient(self, y: Tensor) -> Tensor | None:
        """∂E/∂y there; None where it cannot be had."""
        with torch.enable_grad():
            leaf = y.detach().clone().requires_grad_()
            result = self.value(leaf)
            if result is None or not result.requires_grad:
                return None
            try:
                (gradient,) = torch.autograd.grad(result, [leaf], allow_unused=True)
            except RuntimeError:
                return None
        return None if gradient is None else gradient.detach()


def loss_on_output(
    loss: LossFn, output: object, tensor: Tensor, targets: object
) -> LossOnOutput | None:
    """The loss as a function of one tensor of the output; None where the model computes its own.

    Examples:
        >>> y = torch.zeros(2, 3, requires_grad=True) * 1
        >>> on_output = loss_on_output(torch.nn.functional.cross_entropy, y, y, torch.tensor([0, 1]))
        >>> round(on_output.number(torch.zeros(2, 3)), 4)
        1.0986
    """
    known = isinstance(output, (Tensor, tuple, list)) or type(output) is dict
    if not known or (isinstance(output, Mapping) and "loss" in output) or is_dataclass(output):
        return None
    if targets is None and not isinstance(output, (Tensor, tuple, list)):
        return None
    return LossOnOutput(loss, output, tensor, targets)
