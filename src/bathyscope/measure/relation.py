"""Whether targets have anything to do with inputs: a permutation test in closed form."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

LARGEST_SAMPLE = 256
"""Samples compared: the test costs the square of their number."""


def relation_score(inputs: Tensor, targets: Tensor) -> float | None:
    """How many deviations the likeness of inputs and targets lies above that of shuffled targets.

    The likeness is ⟨A, B⟩ with A and B the centred matrices of similarity of the samples by input and
    by target (the Hilbert-Schmidt independence criterion); its mean and variance over all
    permutations of the targets are known in closed form (Kazi-Aoual et al. 1995), so nothing is
    drawn. Fewer than eight samples, or targets that do not differ, give no number.

    Args:
        inputs: samples along the first axis.
        targets: class indices of shape (samples,), or numbers with samples along the first axis.

    Examples:
        >>> x = torch.arange(32.0).unsqueeze(1)
        >>> relation_score(x, 2 * x) > 5
        True
    """
    number = min(len(inputs), LARGEST_SAMPLE)
    if number < 8 or len(targets) != len(inputs):
        return None
    first = _centred(_similarity(inputs[:number]))
    second = _centred(_target_similarity(targets[:number]))
    deviation = math.sqrt(max(0.0, permutation_variance(first, second)))
    if not deviation > 1e-12 * float(first.norm() * second.norm()):
        return None
    mean = float(first.trace() * second.trace()) / (number - 1)
    return (float((first * second).sum()) - mean) / deviation


def permutation_variance(first: Float[Tensor, " n n"], second: Float[Tensor, " n n"]) -> float:
    """Variance of ⟨A, P B Pᵀ⟩ over all permutations P, for centred symmetric A and B.

    Examples:
        >>> eye = torch.eye(4) - 0.25
        >>> abs(permutation_variance(eye, eye)) < 1e-12
        True
    """
    n = len(first)
    terms = [(float(m.trace()), float(m.square().sum()), float(m.diagonal().square().sum()))
             for m in (first.double(), second.double())]  # fmt: skip
    (t1, s1, d1), (t2, s2, d2) = terms
    pairs = 2 * ((n - 1) * s1 - t1**2) * ((n - 1) * s2 - t2**2)
    pairs /= (n - 1) ** 2 * (n + 1) * (n - 2)
    diagonals = (n * (n + 1) * d1 - (n - 1) * (t1**2 + 2 * s1)) * (
        n * (n + 1) * d2 - (n - 1) * (t2**2 + 2 * s2)
    )
    return pairs + diagonals / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))


def _similarity(x: Tensor) -> Float[Tensor, " n n"]:
    """exp(−d²/m) of the squared distances d² of standardised samples, with m their median."""
    rows = x.detach().reshape(len(x), -1).double()
    deviations = rows.std(0, correction=0)
    rows = (rows - rows.mean(0)) / torch.where(deviations > 0, deviations, 1.0)
    squares = torch.cdist(rows, rows).square()
    off = squares[~torch.eye(len(rows), dtype=torch.bool, device=rows.device)]
    return torch.exp(-squares / off.median().clamp_min(1e-12))


def _target_similarity(targets: Tensor) -> Float[Tensor, " n n"]:
    if targets.is_floating_point():
        return _similarity(targets)
    rows = targets.reshape(len(targets), -1)
    return (rows.unsqueeze(0) == rows.unsqueeze(1)).double().mean(2)


def _centred(matrix: Float[Tensor, " n n"]) -> Float[Tensor, " n n"]:
    return matrix - matrix.mean(0) - matrix.mean(1, keepdim=True) + matrix.mean()
