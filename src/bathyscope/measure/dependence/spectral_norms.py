"""Spectral norms that do not normalize: their power iteration has not run."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from bathyscope.core.calls import unwrap

_MOST_ENTRIES = 1 << 22


def unnormalized_spectral_norms(model: nn.Module) -> dict[str, float]:
    """Largest singular value of every weight after its `spectral_norm`: 1 where the iteration has run.

    The estimate of σ is made better by a step of power iteration in every pass in train mode, and by none in
    eval mode: a model in eval mode from the beginning divides by uᵀWv with u, v as they were drawn.

    Examples:
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        >>> list(unnormalized_spectral_norms(nn.Sequential(layer)))
        ['0.weight']
    """
    result = {}
    for prefix, module in unwrap(model).named_modules():
        for name, matrix, u, v in _normed(module):
            if matrix.numel() > _MOST_ENTRIES or not bool(torch.isfinite(matrix).all()):
                continue
            estimate = abs(float(u.double() @ matrix.double() @ v.double()))
            largest = float(torch.linalg.matrix_norm(matrix.double(), 2))
            key = f"{prefix}.{name}".lstrip(".")
            result[key] = largest / estimate if estimate else float("inf")
    return result


def _normed(module: nn.Module) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Name, matrix and the two vectors of each weight under a spectral norm, of the new and the old kind."""
    for name, steps in getattr(module, "parametrizations", {}).items():
        for step in steps:
            if isinstance(step, parametrizations._SpectralNorm) and hasattr(step, "_u"):
                matrix = step._reshape_weight_to_matrix(steps.original.detach())
                yield name, matrix, step._u, step._v
    for hook in getattr(module, "_forward_pre_hooks", {}).values():
        if type(hook).__name__ == "SpectralNorm":
            original = getattr(module, f"{hook.name}_orig").detach()
            vectors = (getattr(module, f"{hook.name}_{end}") for end in "uv")
            yield hook.name, hook.reshape_weight_to_matrix(original), *vectors
