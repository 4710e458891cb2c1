"""Section 4.1: what shortcuts do to the variance of outputs under a start that is made for plain networks."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most, equal

_UNITS, _WIDTH, _SAMPLES = (4, 16, 64), 64, 256


class _Normalized(nn.Module):
    """x ↦ x + W² relu(BN(W¹ relu(BN(x)))): the unit with batch normalization before each activation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width, bias=False),
        )
        for layer in self.branch:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The input and what the branch adds."""
        result: Tensor = x + self.branch(x)
        return result


@torch.no_grad()
def measure_variance(seed: int) -> Measured:
    """Variance of the outputs over that of Gaussian inputs, by the number of units, of four networks."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(_SAMPLES, _WIDTH, generator=generator, dtype=torch.float64)
    rows: dict[str, list[float]] = {}
    for units in _UNITS:
        torch.manual_seed(seed)
        build = partial(
            nets.build, f"nshortcut-{units}-2", width=_WIDTH, pre="relu", mid="relu", init="he"
        )
        networks: dict[str, nn.Module] = {
            "shortcuts": build(),
            "plain": build(shortcut="none"),
            "normalized": nn.Sequential(*(_Normalized(_WIDTH) for _ in range(units))),
            "zero": build(),
        }
        for parameter in networks["zero"].parameters():
            parameter.zero_()
        for label, network in networks.items():
            output = network.double()(x)
            rows.setdefault(label, []).append(float(output.square().mean() / x.square().mean()))
    return Measured(
        numbers={"units": _UNITS, "variance": rows}, settings={"width": _WIDTH, "init": "he"}
    )


def explodes(numbers: Numbers) -> list[Relation]:
    """Geometric growth with shortcuts, slower with batch normalization but still large, none at zero."""
    rows = numbers["variance"]
    low, high = numbers["units"][0], numbers["units"][-1]
    rate = math.log(rows["shortcuts"][-1] / rows["shortcuts"][0]) / (high - low)
    return [
        at_least("shortcuts: log growth of the variance, per unit", rate, 0.3),
        at_most(
            "normalized: variance at the largest depth, over that without",
            rows["normalized"][-1] / rows["shortcuts"][-1],
            1e-3,
        ),
        at_least("normalized: variance at the largest depth", rows["normalized"][-1], 10.0),
        *(equal("zero weights: variance", value, 1.0, slack=1e-12) for value in rows["zero"]),
    ]


def plain_keeps_it(numbers: Numbers) -> list[Relation]:
    """The start keeps the variance of a plain network within a factor of ten, as it is made to."""
    last = numbers["variance"]["plain"][-1]
    return [at_most("plain: |log₁₀ variance| at the largest depth", abs(math.log10(last)), 1.0)]


SECTION_4_1_VARIANCE = Claim(
    name="shortcut_length.section_4_1_variance",
    statement="Under a start that keeps the variance along each path (MSRA, Xavier) the shortcuts make the "
    "output's variance explode with depth; batch normalization only lessens it; zero weights keep it.",
    tested="Mean square of the outputs over that of the inputs, for 4, 16 and 64 units: with shortcuts, with "
    "batch normalization in the branches, and with zero weights. Beside it, as a stricter reading, that "
    "the start does keep the variance of a plain network: at a width of 64 it drifts by more than a factor "
    "of ten over 128 layers.",
    links=(Link(to="shortcut_length.theorem_1"),),
    measure=measure_variance,
    law=explodes,
    law_strict=plain_keeps_it,
)
