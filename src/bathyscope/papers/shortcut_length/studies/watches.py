"""What is measured of a network of this paper while it trains: norms of weights, the Hessian's spectrum."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.curvature import exact_negative_index
from bathyscope.nets import Network
from bathyscope.papers.shortcut_length.linear_network import linear_network_hessian
from bathyscope.training import Examples


def norms(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The mean Frobenius norm of the weight matrices and kernels   (shortcut_length, figure 2)."""
    sizes = [p.detach().norm().item() for p in model.parameters() if p.ndim > 1]
    yield {"mean_norm": sum(sizes) / len(sizes), "num_matrices": len(sizes)}


PERCENTILE = 0.1
"""Of |λ|, in place of the smallest, which is very unstable   (shortcut_length, appendix B)."""


def linear_spectrum(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """Loss, gradient norm, |λ| at its largest and at the 10th percentile, and the index.

    Nothing where the Hessian is non-finite.

    Args:
        model: an n-shortcut network without activations.
        probe: inputs and targets, or their second moments.
    """
    x, y = probe
    weights, shortcut = unit_weights(model)
    matrix = linear_network_hessian(weights, x, y, shortcut=shortcut)
    if not torch.isfinite(matrix).all():  # the run has diverged, or is about to
        return
    yield spectrum_row(torch.linalg.eigvalsh(matrix)) | _first_order(model, x, y)


def spectrum_row(eigenvalues: Tensor) -> dict[str, object]:
    """What the figures show of a spectrum; the percentile is a lower one, without interpolation.

    Examples:
        >>> spectrum_row(torch.tensor([-4.0, -1.0, 2.0]))["largest"]
        4.0
    """
    sizes = eigenvalues.abs().sort().values
    index = exact_negative_index(eigenvalues, tolerance=len(sizes) ** 0.5 * 2.2e-16)
    return {
        "largest": sizes[-1].item(),
        "percentile": sizes[int(PERCENTILE * (len(sizes) - 1))].item(),
        "index": index.fraction,
    }


def unit_weights(model: nn.Module) -> tuple[Tensor, bool]:
    """The weights W^{r,l} as one tensor (R n d d), and whether there are shortcuts.

    Raises:
        UsageError: the network is not linear, or its units differ.
    """
    if not isinstance(model, Network) or any(p.ndim != 2 for p in model.parameters()):
        raise UsageError("A linear n-shortcut network without stem and head is needed.")
    units = [[p.detach() for p in block.parameters()] for block in model.blocks]
    shortcut = getattr(model.blocks[0], "shortcut", None) is not None
    return torch.stack([torch.stack(unit) for unit in units]), shortcut


def _first_order(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, object]:
    parameters = list(model.parameters())
    loss = (model(x) - y).square().sum() / (2 * len(x))
    gradients = torch.autograd.grad(loss, parameters)
    norm = torch.stack([g.norm() for g in gradients]).norm()
    return {"loss": loss.item(), "gradient_norm": norm.item()}
