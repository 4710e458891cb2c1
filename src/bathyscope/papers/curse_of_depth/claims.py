"""Variance of pre-norm networks over depth at the start, and what 1/√l does to it."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most

WIDTH, SAMPLES = 64, 64


def branch_sizes(depth: int, *, scaled: bool, seed: int) -> Float[Tensor, " 2 L"]:
    """Variance after every block x + W² relu(W¹ norm(x)), and ‖branch‖/‖x‖ in it.

    `scaled` divides the output of the norm of block l by √l.
    """
    generator = torch.Generator().manual_seed(seed)
    x = normal(generator, SAMPLES, WIDTH)
    rows = []
    for block in range(1, depth + 1):
        first = normal(generator, WIDTH, WIDTH) * math.sqrt(2 / WIDTH)
        second = normal(generator, WIDTH, WIDTH) / math.sqrt(WIDTH)
        h = F.layer_norm(x, (WIDTH,)) / (math.sqrt(block) if scaled else 1.0)
        branch = torch.relu(h @ first.T) @ second.T
        fraction = float(branch.norm() / x.norm())
        x = x + branch
        rows.append([float(x.var()), fraction])
    return torch.tensor(rows, dtype=torch.float64).T


def measure_growth(seed: int) -> Measured:
    """Exponents over depth, from 8 to 64 blocks, of variance and of the fraction that a branch adds."""
    numbers = {}
    for name, scaled in (("plain", False), ("scaled", True)):
        variance, fraction = branch_sizes(64, scaled=scaled, seed=seed)
        numbers[name] = {
            "variance_exponent": math.log(float(variance[63] / variance[7])) / math.log(8),
            "fraction_exponent": math.log(float(fraction[63] / fraction[7])) / math.log(8),
            "last_variance": float(variance[63]),
            "last_fraction": float(fraction[63]),
        }
    return Measured(numbers=numbers, settings={"width": WIDTH, "blocks": 64})


def variance(numbers: Numbers) -> list[Relation]:
    """The variance grows with depth, and the fraction that a branch adds falls."""
    plain = numbers["plain"]
    return [
        at_least("exponent of the variance over depth", plain["variance_exponent"], 0.7),
        at_most("exponent of the branch's fraction", plain["fraction_exponent"], -0.3),
    ]


def exponential(numbers: Numbers) -> list[Relation]:
    """It grows exponentially: by more than any power that the first blocks show."""
    return [
        at_least("exponent of the variance over depth", numbers["plain"]["variance_exponent"], 3)
    ]


VARIANCE = Claim(
    name="curse_of_depth.variance",
    statement="With norms before the branches the variance grows with depth, and late blocks tend to "
    "the identity.",
    tested="Variance and the fraction that a branch adds, over 64 random blocks at the start. Read more "
    "strictly, as exponential growth, it is not so at the start, where the variance grows in proportion to "
    "the depth; what training does was not tested.",
    measure=measure_growth,
    law=variance,
    law_strict=exponential,
    links=(Link(to="curse_of_depth.figure_1", check="the variance grows"),),
)


def cure(numbers: Numbers) -> list[Relation]:
    """With 1/√l the variance stays, and late branches add more than without."""
    scaled, plain = numbers["scaled"], numbers["plain"]
    return [
        at_most("1/√l: exponent of the variance", scaled["variance_exponent"], 0.3),
        at_least(
            "fraction that the last branch adds, against that without 1/√l",
            scaled["last_fraction"],
            plain["last_fraction"],
        ),
    ]


def cure_of_variance(numbers: Numbers) -> list[Relation]:
    """It holds the variance, and makes late branches smaller still."""
    scaled, plain = numbers["scaled"], numbers["plain"]
    return [
        at_most("1/√l: exponent of the variance", scaled["variance_exponent"], 0.3),
        at_most("fraction of the last branch", scaled["last_fraction"], plain["last_fraction"]),
    ]


CURE = Claim(
    name="curse_of_depth.cure",
    statement="Dividing the norm's output of block l by √l holds the variance, so that late blocks "
    "contribute more.",
    tested="As `variance`, with and without the factor, at the start.",
    measure=measure_growth,
    law=cure,
    corrected="at the start it holds the variance (it grows with the logarithm of the depth), and makes the "
    "fraction that late branches add smaller, not larger: what late blocks gain they gain in training",
    law_corrected=cure_of_variance,
    empirical=True,
)

CLAIMS = (VARIANCE, CURE)
