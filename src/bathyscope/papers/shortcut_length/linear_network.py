"""The Hessian of a linear residual network in closed form, from the second moments of the data."""

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.curvature.dense_matrix import check_room_for_matrices


def linear_network_hessian(
    weights: Float[Tensor, " *runs R n d d"],
    x: Float[Tensor, " m d"],
    y: Float[Tensor, " m d"],
    *,
    shortcut: bool = True,
) -> Float[Tensor, " *runs D D"]:
    """∂²L/∂w∂w of W = Π_r (Π_l W^{r,l} + I) under L = 1/(2m) Σ ‖y − W x‖², at any weights.

    With P_a the map from the input to that of layer a, S_a the map from the output of layer a to
    that of the network, K_ba the map from the output of a to the input of a later layer b and
    E = W Σ^XX − Σ^YX:

        ∂²L/∂W_b[i,j]∂W_a[k,l] = (S_bᵀS_a)[i,k] (P_b Σ^XX P_aᵀ)[j,l] + (S_bᵀ E P_aᵀ)[i,l] K_ba[j,k]

    (shortcut_length, equation 2 and appendix A.2, where it is used at zero). Only the second
    moments of (x, y) enter, so d + d pseudo-samples from `data.moments` give it exactly at a cost
    that does not grow with the data. Many runs are one computation.

    Args:
        weights: W^{r,l}, unit by unit; leading dimensions are runs.
        x: inputs, or pseudo-samples.
        y: targets, or pseudo-samples.
        shortcut: False leaves the identities out: a plain linear network.

    Returns:
        Coordinates ordered by (r, l, row, column), as `torch.nn` modules flatten their weights.

    Raises:
        UsageError: the matrices would not fit into memory.

    Examples:
        >>> w = torch.zeros(1, 2, 1, 1)
        >>> linear_network_hessian(w, torch.tensor([[1.0]]), torch.tensor([[3.0]])).tolist()
        [[0.0, -2.0], [-2.0, 0.0]]
    """
    *runs, num_units, n, d, _ = weights.shape
    layers = num_units * n
    check_room_for_matrices(weights.shape[:-4].numel(), layers * d * d, weights)
    xx, yx = x.T @ x / len(x), y.T @ x / len(x)
    into, onward, between = _maps(weights, shortcut=shortcut)
    whole = _product(_units(weights, shortcut=shortcut))
    residual = whole @ xx - yx
    s = onward.flatten(-4, -3)  # (*runs, D, d, d)
    p = into.flatten(-4, -3)
    left = torch.einsum("...bui,...auk->...baik", s, s)
    right = torch.einsum("...bju,uv,...alv->...bajl", p, xx, p)
    bend = torch.einsum("...bui,...uv,...alv->...bail", s, residual, p)
    matrix = weights.new_empty(*runs, layers, d, d, layers, d, d)
    for b in range(layers):
        row = matrix[..., b, :, :, :, :, :]
        row.copy_(
            torch.einsum("...aik,...ajl->...ijakl", left[..., b, :, :, :], right[..., b, :, :, :])
        )
        if b:
            row[..., :b, :, :] += torch.einsum(
                "...ail,...ajk->...ijakl", bend[..., b, :b, :, :], between[..., b, :b, :, :]
            )
        if b + 1 < layers:
            row[..., b + 1 :, :, :] += torch.einsum(
                "...akj,...ali->...ijakl",
                bend[..., b + 1 :, b, :, :],
                between[..., b + 1 :, b, :, :],
            )
    return matrix.reshape(*runs, layers * d * d, layers * d * d)


def _units(weights: Tensor, *, shortcut: bool) -> Tensor:
    """Π_l W^{r,l} + I for every unit."""
    units = _product(weights)
    if shortcut:
        units = units + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    return units


def _product(factors: Float[Tensor, " *b n d d"]) -> Float[Tensor, " *b d d"]:
    """W^n … W^1 along the third dimension from the end."""
    product = factors[..., 0, :, :]
    for index in range(1, factors.shape[-3]):
        product = factors[..., index, :, :] @ product
    return product


def _prefixes(factors: Float[Tensor, " *b n d d"]) -> Float[Tensor, " *b n d d"]:
    """W^{l−1} … W^1 for every l, the identity first."""
    eye = torch.eye(factors.shape[-1], dtype=factors.dtype, device=factors.device)
    result = [eye.expand(*factors.shape[:-3], *eye.shape)]
    for index in range(factors.shape[-3] - 1):
        result.append(factors[..., index, :, :] @ result[-1])
    return torch.stack(result, dim=-3)


def _suffixes(factors: Float[Tensor, " *b n d d"]) -> Float[Tensor, " *b n d d"]:
    """W^n … W^{l+1} for every l, the identity last: the prefixes of the transposed network."""
    flipped = factors.flip(-3).transpose(-2, -1)
    return _prefixes(flipped).flip(-3).transpose(-2, -1)


def _maps(weights: Tensor, *, shortcut: bool) -> tuple[Tensor, Tensor, Tensor]:
    """P and S of every layer (*runs R n d d), and K of every pair (*runs D D d d), later layer first."""
    *runs, num_units, n, d, _ = weights.shape
    units = _units(weights, shortcut=shortcut)
    before, after = _prefixes(weights), _suffixes(weights)
    into = before @ _prefixes(units).unsqueeze(-3)
    onward = _suffixes(units).unsqueeze(-3) @ after
    between = weights.new_zeros(*runs, num_units, n, num_units, n, d, d)
    for first in range(num_units):
        _within(between[..., first, :, first, :, :, :], weights[..., first, :, :, :])
        if first + 1 < num_units:
            chain = _prefixes(units[..., first + 1 :, :, :])
            between[..., first + 1 :, :, first, :, :, :] = torch.einsum(
                "...rlij,...rjk,...mkv->...rlmiv",
                before[..., first + 1 :, :, :, :],
                chain,
                after[..., first, :, :, :],
            )
    return into, onward, between.reshape(*runs, num_units * n, num_units * n, d, d)


def _within(target: Tensor, path: Float[Tensor, " *b n d d"]) -> None:
    """K between the layers of one unit: the weights strictly between them."""
    n = path.shape[-3]
    for early in range(n - 1):
        inner = _prefixes(path[..., early + 1 :, :, :])
        target[..., early + 1 :, early, :, :] = inner
