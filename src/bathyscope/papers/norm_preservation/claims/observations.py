"""The observations of section 4.1: norms of gradients while plain and residual networks train."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data, measure, nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.reading import numbers_of
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.claims.sharing import measured
from bathyscope.core.blocks import blocks_of
from bathyscope.core.records import Assumption
from bathyscope.training import Examples

_FAMILIES = {"plain": "preplain", "residual": "preresnet"}
_DEPTH, _STEPS, _BATCH, _RATE = 29, 24, 32, 0.05
_ROUGHLY = math.log(3)
"""|log ratio| up to which a block roughly preserves the norm."""
_TOO_MUCH = 100.0
"""The factor by which the one block is made to change gradients."""


def digits() -> Examples:
    """256 normalized images with their labels."""
    result = data.load("digits", normalize=True, num_train=256)
    return result.in_memory()[0], result.train_labels


def spreads(model: nn.Module, probe: Examples) -> tuple[float, float]:
    """The largest |log ratio| of a block, infinite where one is non-finite.

    Of the blocks that keep the dimension, and of the transition blocks, which change it.
    """
    blocks = blocks_of(model, probe[0])
    ratios = numbers_of(
        measure.gradients(model, probe, loss=F.cross_entropy, blocks=blocks), "ratio"
    )
    pairs = list(zip(blocks, ratios, strict=True))
    kept = [ratio for block, ratio in pairs if not block.changes_dimension]
    changed = [ratio for block, ratio in pairs if block.changes_dimension]
    return _farthest(kept), _farthest(changed)


def _farthest(ratios: list[float]) -> float:
    usable = all(math.isfinite(r) and r > 0 for r in ratios)
    return max(abs(math.log(r)) for r in ratios) if usable else math.inf


def train_briefly(model: nn.Module, examples: Examples, *, steps: int, lr: float) -> list[float]:
    """The losses of some steps of SGD with momentum 0.9, in turn over the batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for step in range(steps):
        part = slice(step * _BATCH % 256, step * _BATCH % 256 + _BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(examples[0][part]), examples[1][part])
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        loss.backward()
        optimizer.step()
    return losses


def measure_training(seed: int) -> Measured:
    """A plain and a residual network of 29 layers on digits, before the first step and after 24."""
    examples = digits()
    probe = (examples[0][:64], examples[1][:64])
    rows: dict[str, object] = {}
    for name, family in _FAMILIES.items():
        model = nets.build(f"{family}-{_DEPTH}", in_channels=1, seed=seed)
        start = spreads(model, probe)
        losses = train_briefly(model, examples, steps=_STEPS, lr=_RATE)
        end = spreads(model, probe)
        rows[name] = {
            "spread_at_start": start[0],
            "spread_at_end": end[0],
            "all_blocks_at_start": max(start),
            "all_blocks_at_end": max(end),
            "loss": losses[-1] / losses[0],
        }
    return Measured(
        numbers=rows,
        settings={"data": "digits", "depth": _DEPTH, "steps": _STEPS, "learning rate": _RATE},
    )


def start_is_not_enough(numbers: Numbers) -> list[Relation]:
    """Plain is norm-preserving at the start and not later, over all blocks; residual stays so."""
    return _leaves(numbers, "all_blocks")


def start_is_not_enough_without_transitions(numbers: Numbers) -> list[Relation]:
    """The same of the blocks that keep the dimension alone."""
    return _leaves(numbers, "spread")


def _leaves(numbers: Numbers, which: str) -> list[Relation]:
    plain, residual = numbers["plain"], numbers["residual"]
    return [
        at_most("plain, start: largest |log ratio|", plain[f"{which}_at_start"], _ROUGHLY),
        at_least("plain, end: largest |log ratio|", plain[f"{which}_at_end"], _ROUGHLY),
        at_most("residual, end: largest |log ratio|", residual[f"{which}_at_end"], _ROUGHLY),
    ]


SECTION_4_1_START = Claim(
    name="norm_preservation.section_4_1_start",
    statement="A plain network is norm-preserving at its start, and its ratios leave 1 as the "
    "parameters are updated; skips keep them there.",
    tested="Largest |log| of the gradient-norm ratio over all blocks of a plain and a residual network "
    "of 29 layers, before the first step and after 24 on digits. Read more strictly, of the blocks that "
    "keep the dimension alone, it is not so here: as in the paper it is the transition blocks that leave.",
    measure=measure_training,
    law=start_is_not_enough,
    law_strict=start_is_not_enough_without_transitions,
    empirical=True,
    links=(
        Link(to="norm_preservation.section_4_1_stable"),
        Link(
            to="norm_preservation.figure_3",
            check="Plain blocks are farther",
            difference="figure 3 compares trained networks by the mean over their blocks",
        ),
    ),
)


def measure_stable(seed: int) -> Measured:
    """The same networks, and whether their training is stable."""
    result = measured(measure_training, seed)
    worst = max(row["loss"] for row in result.numbers.values())
    return Measured(
        numbers=result.numbers,
        assumptions=(
            Assumption(
                statement="training is stable: no loss is above that at the start",
                holds=worst <= 1,
                value=worst,
            ),
        ),
        settings=result.settings,
    )


def stable_is_roughly_preserving(numbers: Numbers) -> list[Relation]:
    """Every ratio within a factor of three of 1."""
    return [
        at_most(f"{name}, end: largest |log ratio|", row["spread_at_end"], _ROUGHLY)
        for name, row in numbers.items()
    ]


SECTION_4_1_STABLE = Claim(
    name="norm_preservation.section_4_1_stable",
    statement="While training is stable the ratios of all networks, plain ones too, are roughly "
    "concentrated around 1.",
    assumptions=("training is stable",),
    tested="The networks of section 4.1 start after 24 steps: every block that keeps the dimension within a "
    "factor of three.",
    measure=measure_stable,
    law=stable_is_roughly_preserving,
    empirical=True,
)


class _Amplified(nn.Module):
    """x ↦ factor · block(x), whose gradient ratio is the factor's times the block's."""

    def __init__(self, block: nn.Module, factor: float) -> None:
        super().__init__()
        self.block, self.factor = block, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.factor * self.block(x)
        return result


def measure_one_block(seed: int) -> Measured:
    """Twelve narrow layers with shortcuts on digits, as drawn and with one block's output × 100."""
    examples = (digits()[0].flatten(1), digits()[1])
    losses = {}
    for name, factor in (("intact", 1.0), ("one_block", _TOO_MUCH)):
        torch.manual_seed(seed)
        blocks: list[nn.Module] = [
            nets.build("nshortcut-1-2", width=32, mid="relu", seed=seed + i) for i in range(6)
        ]
        blocks[3] = _Amplified(blocks[3], factor)
        model = nn.Sequential(nn.Linear(64, 32), *blocks, nn.Linear(32, 10))
        result = train_briefly(model, examples, steps=48, lr=0.02)
        finite = [loss for loss in result[-8:] if math.isfinite(loss)]
        losses[name] = sum(finite) / len(finite) / result[0] if len(result) == 48 else math.inf
    return Measured(
        numbers=losses, settings={"factor": _TOO_MUCH, "blocks": 6, "learning rate": 0.02}
    )


def one_block(numbers: Numbers) -> list[Relation]:
    """Trained as it is; with the one block not."""
    return [
        at_most("intact: loss at the end over that at the start", numbers["intact"], 0.5),
        at_least("one block: the same", numbers["one_block"], 0.9),
    ]


SECTION_4_1_ONE_BLOCK = Claim(
    name="norm_preservation.section_4_1_one_block",
    statement="A single block whose ratio is far from 1 is enough to make optimization unstable.",
    tested="Six residual blocks on digits that train, and the same with the output of one of them "
    "multiplied by 100: the loss after 48 steps.",
    measure=measure_one_block,
    law=one_block,
    empirical=True,
)

ASSUMPTION_1 = Claim(
    name="norm_preservation.assumption_1",
    statement="The map to be represented is differentiable and invertible, its slope and its inverse "
    "are Lipschitz, and its slope has a positive determinant somewhere.",
    tested="A condition on the map of theorem 1, which evaluates the determinant; it asserts nothing.",
)
