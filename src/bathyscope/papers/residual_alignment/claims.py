"""Singular values of the Jacobians of residual branches after training on three kinds of digits."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import data
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most

CLASSES, _WIDTH, _RATE, _DECAY = 3, 32, 0.05, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Of the Jacobians of all branches at two samples: means of σ_1 and of the first three's energy."""

    loss: float
    largest: float
    energy: float


class _Network(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.entry, self.exit = nn.Linear(64, _WIDTH), nn.Linear(_WIDTH, CLASSES)
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH))
            for _ in range(depth)
        )

    def states(self, x: Tensor) -> list[Tensor]:
        """The representations before every branch, and the last."""
        result = [self.entry(x)]
        for branch in self.branches:
            result.append(result[-1] + branch(result[-1]) / math.sqrt(len(self.branches)))
        return result


def trained(depth: int, *, seed: int, steps: int = 300) -> Alignment:
    """A residual network of that many branches after full-batch steps with weight decay."""
    digits = data.load("digits", normalize=True, num_train=512)
    x, y = digits.in_memory()[0].flatten(1), digits.train_labels
    x, y = x[y < CLASSES], y[y < CLASSES]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _Network(depth)
    optimizer = torch.optim.SGD(network.parameters(), lr=_RATE, momentum=0.9, weight_decay=_DECAY)
    loss = x.new_zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(network.exit(network.states(x)[-1]), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        states = network.states(x[:2])
    values = torch.stack(
        [
            torch.linalg.svdvals(torch.func.jacrev(branch)(state).detach() / math.sqrt(depth))
            for branch, pair in zip(network.branches, states, strict=False)
            for state in pair
        ]
    )
    energy = values[:, :CLASSES].square().sum(dim=1) / values.square().sum(dim=1)
    return Alignment(
        loss=float(loss.detach()), largest=float(values[:, 0].mean()), energy=float(energy.mean())
    )


def measure_alignment(seed: int) -> Measured:
    """Networks of 2, 4 and 8 branches."""
    rows = {depth: trained(depth, seed=seed) for depth in (2, 4, 8)}
    slope = math.log(rows[8].largest / rows[2].largest) / math.log(4)
    return Measured(
        numbers={
            "largest": [row.largest for row in rows.values()],
            "exponent": slope,
            "energy": [row.energy for row in rows.values()],
            "losses": [row.loss for row in rows.values()],
        },
        settings={"branches": tuple(rows), "classes": CLASSES, "steps": 300},
    )


def ra_4(numbers: Numbers) -> list[Relation]:
    """σ_1 falls as 1/L, in networks that fit their data."""
    return [
        at_most("largest loss", max(numbers["losses"]), 0.1),
        at_most("exponent of σ_1 over depth", numbers["exponent"], -0.8),
        at_least("exponent of σ_1 over depth", numbers["exponent"], -1.5),
    ]


RA_4 = Claim(
    name="residual_alignment.ra_4",
    statement="The top singular values of the Jacobians of residual branches fall inversely with depth.",
    tested="σ_1 of the branches' Jacobians in fully connected networks of 2, 4 and 8 branches (over the "
    "root of the depth at the start) after 300 steps with weight decay on three kinds of digits.",
    measure=measure_alignment,
    law=ra_4,
    empirical=True,
    links=(Link(to="residual_alignment.figure_1", check="exponent"),),
)


def ra_3(numbers: Numbers) -> list[Relation]:
    """Three directions hold all of the energy."""
    return [at_least("2 branches: energy of the first three σ", numbers["energy"][0], 0.99)]


RA_3 = Claim(
    name="residual_alignment.ra_3",
    statement="In fully connected residual networks the Jacobians of the branches have at most the rank of "
    "the number of classes.",
    tested="The fraction of the energy of the Jacobians in three directions, for three classes, in the same "
    "networks; the paper trains for longer, until the classes collapse.",
    measure=measure_alignment,
    law=ra_3,
    empirical=True,
)

CLAIMS = (RA_3, RA_4)
