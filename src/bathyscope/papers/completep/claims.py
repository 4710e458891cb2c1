"""How far one step moves a residual network whose branches are divided by a power of the depth."""

import math

import torch
import torch.nn.functional as F

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, equal

WIDTH, SAMPLES, RATE = 32, 64, 1e-3


def movement(depth: int, alpha: float, *, seed: int) -> float:
    """‖Δx_L‖/‖x_L‖ after one step of signs (Adam's first) at one rate, blocks x + L^{−α} W relu(x)."""
    generator = torch.Generator().manual_seed(seed)
    weights = [
        (normal(generator, WIDTH, WIDTH) / math.sqrt(WIDTH)).requires_grad_() for _ in range(depth)
    ]
    head = normal(generator, 10, WIDTH) / WIDTH
    x = normal(generator, SAMPLES, WIDTH)
    y = torch.randint(10, (SAMPLES,), generator=generator)

    def last(parts: list[torch.Tensor]) -> torch.Tensor:
        h = x
        for weight in parts:
            h = h + depth**-alpha * torch.relu(h) @ weight.T
        return h

    before = last(weights)
    gradients = torch.autograd.grad(F.cross_entropy(before @ head.T, y), weights)
    with torch.no_grad():
        after = last([w - RATE * g.sign() for w, g in zip(weights, gradients, strict=True)])
        return float((after - before).norm() / before.norm())


def measure_steps(seed: int) -> Measured:
    """The exponent over depth, from 8 to 128 blocks, of how far one step moves; for three powers."""
    numbers = {}
    for name, alpha in (("none", 0.0), ("root", 0.5), ("whole", 1.0)):
        near, far = (
            sum(movement(depth, alpha, seed=10 * seed + k) for k in range(5)) for depth in (8, 128)
        )
        numbers[name] = math.log(far / near) / math.log(16)
    return Measured(numbers=numbers, settings={"blocks": (8, 128), "rate": RATE, "width": WIDTH})


def transfers(numbers: Numbers) -> list[Relation]:
    """With α = 1 a step moves as far at every depth; with α = 1/2 and 0 farther in deep ones."""
    return [
        equal("α = 1: exponent over depth", numbers["whole"], 0.0, slack=0.2),
        at_least("α = 1/2: exponent over depth", numbers["root"], 0.3),
        at_least("α = 0: exponent over depth", numbers["none"], 0.3),
    ]


STEP = Claim(
    name="completep.step",
    statement="Only with branches divided by the depth does one learning rate move shallow and deep networks "
    "equally far.",
    tested="How far a step of signs at one rate moves the last representation, at 8 and 128 blocks, for "
    "branches divided by nothing, √L and L. Whether the best rate of a training follows was not tested.",
    measure=measure_steps,
    law=transfers,
    empirical=True,
    links=(Link(to="completep.figure_1", check="divided by L:"),),
)

CLAIMS = (STEP,)
