"""How low the loss gets without looking at the inputs: the measure of whether a network has learnt."""

import math

import torch
from torch import Tensor

from bathyscope.core.batch import LossFn
from bathyscope.core.nested import main_tensor


def best_constant_loss(output: object, targets: object, loss: LossFn) -> float | None:
    """The loss of the best output that is the same for every sample; None where it cannot be found.

    A constant is fitted by L-BFGS, whatever the loss, from what is best for the usual ones.

    Args:
        output: of the network, for its shape; several samples.
        targets: of these samples.
        loss: a scalar from output and targets.

    Examples:
        >>> import torch.nn.functional as F
        >>> labels = torch.tensor([0, 1, 2, 3])
        >>> round(best_constant_loss(torch.randn(4, 4), labels, F.cross_entropy), 3)
        1.386
    """
    given = main_tensor(output)
    if not isinstance(output, Tensor) or given is None or targets is None or given.ndim < 1:
        return None
    constant = _first_guess(given, targets).requires_grad_()
    fitter = torch.optim.LBFGS([constant], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        fitter.zero_grad()
        value = loss(constant.expand_as(given), targets)
        value.backward()
        return value

    try:
        with torch.enable_grad():
            fitter.step(closure)
            value = float(closure().detach())
    except Exception:  # a user's own loss may raise anything
        return None
    return value if 0 < value < float("inf") else None


def _first_guess(given: Tensor, targets: object) -> Tensor:
    """The mean of targets shaped as the outputs, the logarithms of how frequent labels are, or zero.

    Outputs that are all probabilities begin at one half: a loss may not be defined at zero.
    """
    constant = torch.zeros((1, *given.shape[1:]), dtype=given.dtype, device=given.device)
    if bool(((given >= 0) & (given <= 1)).all()):
        return constant + 0.5
    if not isinstance(targets, Tensor) or targets.is_complex():
        return constant
    if targets.is_floating_point():
        mean = targets.to(constant).mean(0, keepdim=True)
        return mean if mean.shape == constant.shape and bool(mean.isfinite().all()) else constant
    if given.ndim == 2 and targets.shape == given.shape[:1] and targets.dtype is torch.int64:
        known = targets[(targets >= 0) & (targets < given.shape[1])]
        counts = torch.bincount(known, minlength=given.shape[1]).to(constant)
        return (counts.clamp_min(0.01).log() - math.log(max(1, len(known)))).unsqueeze(0)
    return constant
