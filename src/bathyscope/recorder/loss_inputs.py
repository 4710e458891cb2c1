"""What the losses of torch are given: probabilities where they take logits, or the other way round."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bathyscope.recorder.tape import TapeCall

_FEWEST = 16
"""Numbers below which logits may lie between 0 and 1 by chance."""


def misread_input(calls: Sequence[TapeCall]) -> tuple[str, str] | None:
    """The first loss function that is given something other than it takes, and what that is.

    Examples:
        >>> p = torch.randn(8, 3).softmax(1)
        >>> call = TapeCall(torch.nn.functional.cross_entropy, (p, None), {}, None, True)
        >>> misread_input([call])
        ('cross_entropy', 'probabilities')
    """
    makers = {id(call.output): getattr(call.func, "__name__", "") for call in calls}
    for call in calls:
        if call.is_module or not call.with_grad:
            continue
        given = call.args[0] if call.args else call.kwargs.get("input")
        name = getattr(call.func, "__name__", "")
        if isinstance(given, Tensor) and given.is_floating_point() and given.numel() >= _FEWEST:
            what = _misread(name, given.detach(), made_by=makers.get(id(given), ""))
            if what is not None:
                return name, what
    return None


def _misread(name: str, given: Tensor, *, made_by: str) -> str | None:
    if name in ("kl_div", "nll_loss") and bool((given > 1e-3).any()):
        return "probabilities" if _is_distribution(given) else "logits"
    if (
        name == "cross_entropy"
        and given.ndim > 1
        and given.shape[1] > 1
        and _is_distribution(given)
    ):
        return "probabilities"
    # logits of a fresh network may lie between 0 and 1, so that these do not show what they are
    if name == "binary_cross_entropy_with_logits" and made_by in ("sigmoid", "softmax"):
        return "probabilities"
    return None


def _is_distribution(given: Tensor) -> bool:
    """Whether the second axis sums to one, of numbers from 0 to 1."""
    axis = 1 if given.ndim > 1 else 0
    sums = given.float().sum(axis)
    return bool((given >= 0).all()) and bool(
        torch.isclose(sums, torch.ones_like(sums), atol=1e-2).all()
    )
