"""Deep linear networks as drawn: plain, residual and aggregated, and what their last block gives."""

from typing import Literal

import torch
from torch import Tensor

from bathyscope import measure, nets
from bathyscope.claims.draws import half_squares, normal
from bathyscope.claims.reading import linear_layers
from bathyscope.core.records import Assumption
from bathyscope.linalg import Conditioning
from bathyscope.nets import Network

Kind = Literal["plain", "residual", "aggregated"]
WIDTH, SAMPLES, BLOCKS = 16, 48, 82  # 82 blocks are the 164 layers of the paper
SCALED = 0.1


def drawn(
    kind: Kind, num_blocks: int, *, seed: int, width: int = WIDTH, scale: float = 1.0
) -> Network:
    """A linear network in float64, Xavier weights, the last layer of every branch scaled."""
    network = nets.build(f"linear-{kind}-{2 * num_blocks}", width=width, seed=seed).double()
    with torch.no_grad():
        for block in network.blocks:
            for layer in linear_layers(block)[1::2]:
                layer.weight.mul_(scale)
    assert isinstance(network, Network)
    return network


def batch_for(seed: int, *, width: int = WIDTH, samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    """Gaussian inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    return normal(generator, samples, width), normal(generator, samples, width)


def spectra(network: Network, batch: tuple[Tensor, Tensor]) -> list[Conditioning]:
    """The spectrum of H after every block, first to last."""
    result = measure.representation_spectra(network, batch, loss=half_squares)
    return [modes["features"] for modes in result.values()]


def top_fraction(spectrum: Conditioning) -> float:
    """σ_1²/Σσ²: one where all columns are collinear."""
    return 1 / spectrum.stable_rank


def is_linear(network: Network) -> Assumption:
    """Whether a network is additive, f(x + y) = f(x) + f(y)."""
    width = linear_layers(network)[0].in_features
    x, y = batch_for(0, width=width, samples=4)
    with torch.no_grad():
        gap = network(x + y) - network(x) - network(y)
        error = float(gap.abs().max() / network(x).abs().max())
    return Assumption(
        statement="the network is linear (relative gap of f(x + y))",
        holds=error < 1e-8,
        value=error,
    )


def summary(spectrum: Conditioning) -> dict[str, object]:
    """Rank, condition number and fraction of the top direction."""
    return {
        "rank": spectrum.rank,
        "condition_number": spectrum.condition_number,
        "top_fraction": top_fraction(spectrum),
    }
