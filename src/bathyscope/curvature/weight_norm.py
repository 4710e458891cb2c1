"""Weight normalization with a right second derivative.

torch's fused `_weight_norm` treats the norms of v as constants when its backward pass is
differentiated: the Hessian is asymmetric and up to half of it is wrong. Written out in operations
that torch differentiates one by one, w = g v/‖v‖ has the right derivatives of every order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class plain_weight_norm(TorchFunctionMode):  # noqa: N801 - a context: with plain_weight_norm()
    """Inside, `torch._weight_norm` is computed as g v/‖v‖, by whatever layer it is called."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """The written-out form for weight normalization, and everything else as it is."""
        if func is torch._weight_norm:
            return _write_out(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _write_out(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return v * (g / torch.norm_except_dim(v, 2, dim))
