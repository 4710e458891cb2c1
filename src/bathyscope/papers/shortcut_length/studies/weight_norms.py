"""The norms of weights while a network of this paper trains."""

from collections.abc import Iterator

from torch import nn

from bathyscope.training import Examples


def norms(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The mean Frobenius norm of the weight matrices and kernels   (shortcut_length, figure 2)."""
    sizes = [p.detach().norm().item() for p in model.parameters() if p.ndim > 1]
    yield {"mean_norm": sum(sizes) / len(sizes), "num_matrices": len(sizes)}
