"""The mode of a network: train or eval, how much dropout drops, and norms that see one value."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.records import Measurement, Number

_MODAL = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


@functools.cache
def modal_functions() -> frozenset[Callable[..., object]]:
    """The functions whose calls say something of the mode: dropouts and norms over one sample."""
    return frozenset(
        {
            *(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout),
            *(F.feature_alpha_dropout, F.group_norm, F.layer_norm, F.instance_norm),
        }
    )


class ModeTap:
    """Hears of every call of a dropout or norm in a pass, as a module or as a function."""

    def __init__(self) -> None:
        self.dropped = 0.0
        self.lone_norms = 0

    def called(self, function: Callable[..., object], args: Any, kwargs: Mapping[str, Any]) -> None:
        """Take the probability of a dropout that is on, the size of the groups of a norm."""
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or x.ndim < 2:
            return
        if function is F.layer_norm:
            shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
            self.lone_norms += math.prod(shape) == 1
        elif function is F.group_norm:
            groups = int(args[1] if len(args) > 1 else kwargs["num_groups"])
            self.lone_norms += math.prod(x.shape[1:]) == groups
        elif function is F.instance_norm:
            self.lone_norms += x.ndim > 2 and math.prod(x.shape[2:]) == 1
        else:
            given = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            default = function not in (F.alpha_dropout, F.feature_alpha_dropout)
            on = args[2] if len(args) > 2 else kwargs.get("training", default)
            self.dropped = max(self.dropped, float(given) if on else 0.0)

    def measurement(self, model: nn.Module) -> Measurement:
        """The measurement `mode`, in `settings`.

        training: whether the network is in train mode; modal: how many of its modules work
        differently in eval mode; resting: of these, how many are in eval mode; dropped: the greatest
        probability of a dropout that is on; lone_norms: calls of norms whose groups hold one value.
        """
        modules = [m for m in unwrap(model).modules() if isinstance(m, _MODAL)]
        numbers: dict[str, Number] = {
            "training": model.training,
            "modal": len(modules),
            "resting": sum(not m.training for m in modules),
            "dropped": self.dropped,
            "lone_norms": self.lone_norms,
        }
        return Measurement(name="mode", blocks=(), columns={}, settings=numbers)
