"""The scale of what the network puts out, and how far its normalizer has drifted."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.nested import main_tensor

_ROWS = 256


class LogitScale(NamedTuple):
    """Deviation of a row of logits, mean over rows; mean and deviation of log Z over rows."""

    std: float
    log_z: float
    log_z_std: float
    num_classes: int


def logits_in(output: object) -> Tensor | None:
    """The logits of a model's output: its `logits`, or else the tensor that it passes on."""
    logits = getattr(output, "logits", None)
    tensor = logits if isinstance(logits, Tensor) else main_tensor(output)
    return tensor if tensor is not None and tensor.ndim >= 2 else None


def logit_scale(logits: Float[Tensor, " *n v"]) -> LogitScale:
    """Scale of the logits and log Z = log Σ exp(logit), from 256 rows spread evenly.

    A softmax does not see a common offset, so nothing but rounding holds log Z: it may drift until
    the logits no longer fit their format. Equal logits have log Z = ln v.

    Examples:
        >>> [round(value, 4) for value in logit_scale(torch.zeros(2, 4))]
        [0.0, 1.3863, 0.0, 4]
    """
    rows = logits.detach().flatten(0, -2)
    step = max(1, len(rows) // _ROWS)
    rows = rows[::step].to(torch.promote_types(rows.dtype, torch.float32))
    log_z = torch.logsumexp(rows, dim=-1)
    numbers = [rows.std(-1, correction=0).mean(), log_z.mean(), log_z.std(correction=0)]
    std, mean, spread = torch.stack(numbers).tolist()
    return LogitScale(std, mean, spread, rows.shape[-1])
