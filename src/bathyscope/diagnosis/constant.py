"""How low the loss gets without looking at the inputs: the measure of whether a network has learnt."""

import torch
from torch import Tensor

from bathyscope.core.batch import LossFn, main_tensor


def best_constant_loss(output: object, targets: object, loss: LossFn) -> float | None:
    """The loss of the best output that is the same for every sample; None where it cannot be found.

    A constant is fitted by L-BFGS, from zero, whatever the loss.

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
    constant = torch.zeros((1, *given.shape[1:]), dtype=given.dtype, device=given.device)
    if bool(((given >= 0) & (given <= 1)).all()):
        constant += 0.5  # probabilities: a loss may not be defined at zero
    constant.requires_grad_()
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
