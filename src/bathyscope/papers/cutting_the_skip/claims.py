"""The condition number of the Jacobian of attention blocks, with skips, without, and tailored."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import normal
from bathyscope.claims.relation import Relation, at_least, at_most

KINDS = ("no skips", "skips", "no skips, tailored")
TOKENS, WIDTH, _SHARPNESS = 6, 12, 4.0


def attention_map(kind: str, depth: int, *, seed: int) -> tuple[Tensor, "_Blocks"]:
    """Tokens, and blocks of attention behind a norm of one of `KINDS`."""
    generator = torch.Generator().manual_seed(seed)
    x = normal(generator, TOKENS, WIDTH)
    layers = []
    for _ in range(depth):
        parts = [normal(generator, WIDTH, WIDTH) / math.sqrt(WIDTH) for _ in range(4)]
        if kind == KINDS[2]:
            # orthogonal values and outputs; equal queries and keys make a token attend to itself
            parts = [torch.linalg.qr(part).Q for part in parts]
            parts[1] = _SHARPNESS * parts[0]
        layers.append(parts)
    return x, _Blocks(layers, skips=kind == KINDS[1])


class _Blocks:
    def __init__(self, layers: list[list[Tensor]], *, skips: bool) -> None:
        self.layers, self.skips = layers, skips

    def __call__(self, x: Float[Tensor, " n d"]) -> Float[Tensor, " n d"]:
        for query, key, value, output in self.layers:
            h = F.layer_norm(x, (WIDTH,))
            scores = (h @ query.T) @ (h @ key.T).T / math.sqrt(WIDTH)
            branch = torch.softmax(scores, dim=-1) @ h @ value.T @ output.T
            x = x + branch if self.skips else branch
        return x


def condition_number(kind: str, depth: int, *, seed: int) -> float:
    """κ of the Jacobian over the directions that a norm lets through, two of each token less."""
    x, blocks = attention_map(kind, depth, seed=seed)
    jacobian = torch.func.jacrev(blocks)(x).reshape(x.numel(), x.numel())
    values = torch.linalg.svdvals(jacobian)
    passed = TOKENS * (WIDTH - 2)
    return float(values[0] / values[passed - 1].clamp_min(1e-300))


def measure_conditions(seed: int) -> Measured:
    """The median over nine draws, for one block of each kind and for two."""
    numbers = {
        kind: [
            float(
                torch.tensor(
                    [condition_number(kind, depth, seed=9 * seed + k) for k in range(9)]
                ).median()
            )
            for depth in (1, 2)
        ]
        for kind in KINDS
    }
    return Measured(numbers=numbers, settings={"tokens": TOKENS, "width": WIDTH, "blocks": (1, 2)})


def recovers(numbers: Numbers) -> list[Relation]:
    """Without skips κ is a hundred times that with; tailored it is no more than ten times."""
    bare, skips, tailored = (numbers[kind] for kind in KINDS)
    result = []
    for k, blocks in enumerate(("1 block", "2 blocks")):
        result += [
            at_least(f"{blocks}: κ without skips over that with", bare[k] / skips[k], 100),
            at_most(f"{blocks}: κ tailored over that with skips", tailored[k] / skips[k], 10),
        ]
    return result


CONDITIONING = Claim(
    name="cutting_the_skip.conditioning",
    statement="Without skips the Jacobian of attention blocks is badly conditioned; an initialization alone "
    "gives the conditioning back.",
    tested="Condition numbers of the Jacobians of one and two blocks of attention behind a norm, with skips, "
    "without, and without but with orthogonal values and tokens that attend to themselves.",
    measure=measure_conditions,
    law=recovers,
    empirical=True,
    links=(Link(to="cutting_the_skip.figure_1", check="tailored"),),
)

CLAIMS = (CONDITIONING,)
