"""Whether the batch norms of each block still normalise what they are given."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.members import Members
from bathyscope.core.preserve import one_at_a_time
from bathyscope.core.records import Measurement
from bathyscope.measure.rows import Rows

# Below this share of the mean square the difference has lost too many digits of float32.
_CANCELLATION = 1e-3
_BATCH_NORM = nn.modules.batchnorm._BatchNorm


class NormInputs:
    """Median variance over channels of what each batch norm was given, in units of its ε."""

    def __init__(self) -> None:
        self.variance: dict[str, float] = {}

    def measurement(self, model: nn.Module, blocks: Blocks) -> Measurement:
        """The measurement `normalisation`.

        Columns, one value a block:
            variance_over_epsilon: the smallest of its batch norms. y = (x − mean)/√(variance + ε)
                normalises only where this is well above 1; None without a batch norm.
            layer: the norm it belongs to.
        """
        rows = Rows(blocks, ("variance_over_epsilon", "layer"))
        members = Members(model)
        for block in blocks:
            found = [(self.variance[n], n) for n in members.of(block) if n in self.variance]
            if found:
                value, layer = min(found)
                rows.put(block, variance_over_epsilon=value, layer=layer)
        return rows.measurement("normalisation")


@contextmanager
def norm_inputs(model: nn.Module) -> Iterator[NormInputs]:
    """Within, every pass writes down the variance that each batch norm works with.

    In train mode this is the batch's, in eval mode the running one.

    Examples:
        >>> norm = nn.Sequential(nn.BatchNorm1d(2))
        >>> with norm_inputs(norm) as seen:
        ...     _ = norm(torch.tensor([[0.0, 0.0], [2.0, 2e-4]]))
        >>> round(seen.variance["0"] * 1e-5, 4)
        0.0
    """
    seen = NormInputs()
    handles = []

    def written(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        @torch.no_grad()
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            assert isinstance(module, _BATCH_NORM)
            if module.training or module.running_var is None:
                variance = channel_variances(args[0])
            else:
                variance = module.running_var
            seen.variance[name] = float(variance.median()) / module.eps

        return hook

    with one_at_a_time():
        try:
            for name, module in unwrap(model).named_modules():
                if isinstance(module, _BATCH_NORM):
                    handles.append(module.register_forward_pre_hook(written(name)))
            yield seen
        finally:
            for handle in handles:
                handle.remove()


def channel_variances(x: Float[Tensor, " n c *image"]) -> Float[Tensor, " c"]:
    """Variance of each channel over samples and positions, divided by their number.

    E x² − (E x)² from sums along images and then samples: torch's own variance over several axes
    takes twenty times as long. Where the difference cancels, torch's is taken after all.

    Examples:
        >>> channel_variances(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
        tensor([1., 0.])
    """
    rows = x.float().flatten(2) if x.ndim > 2 else x.float().unsqueeze(2)
    count = rows.shape[0] * rows.shape[2]
    mean = rows.sum(2).sum(0) / count
    square = torch.linalg.vector_norm(rows, dim=2).square().sum(0) / count
    variance = square - mean**2
    if bool((variance <= _CANCELLATION * square).any()):
        return rows.var((0, 2), correction=0)
    result: Tensor = variance
    return result
