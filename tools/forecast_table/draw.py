"""A number is a training: every choice of architecture, start, optimizer and data follows from it."""

import math
import random
from dataclasses import asdict, dataclass

from tools.forecast_table.tasks import PICTURES, REGRESSIONS, SEQUENCES

VERSION = 1
"""Of the law; another version is another table."""

FAMILIES = ("mlp", "sequential", "conv", "bottleneck", "dense", "mixer", "transformer", "gpt")
_WEIGHTS = (22, 14, 16, 10, 10, 8, 12, 10)
_MOST_BLOCKS = {
    "mlp": 200,
    "sequential": 200,
    "conv": 64,
    "bottleneck": 24,
    "dense": 40,
    "mixer": 32,
    "transformer": 16,
    "gpt": 16,
}
_WIDTHS = {
    "mlp": (16, 32, 64),
    "sequential": (16, 32, 64),
    "conv": (8, 12),
    "bottleneck": (8, 12),
    "dense": (8, 12, 16),
    "mixer": (16, 24, 32),
    "transformer": (16, 24, 32),
    "gpt": (16, 24, 32),
}

HELD_OUT_FAMILY = "mixer"
HELD_OUT_TASK = "stripes"
"""Never fitted on, and never looked at before the last score; chosen before a network was labeled."""


@dataclass(frozen=True, slots=True)
class Draw:
    """All that decides a training but its random start and the order of its batches.

    Attributes:
        number: the draw's own.
        family: of architecture.
        blocks: how many follow one another.
        width: units, channels or dimensions of an embedding.
        layers: weighted layers in a block, where the family lets it vary.
        norm: `none`, `batch` or `layer`.
        order: of a layer's parts: `pre` (norm, activation, map), `mid` (map, norm, activation) or
            `post` (map, activation, norm); for transformers, norm before a branch or after the sum.
        shortcut: `none`, `pre` (the sum is passed on), `post` (an activation follows it) or `scaled`
            (the branch is divided by √blocks).
        activation: by name.
        start: how weights are drawn.
        task: the data.
        optimizer: `sgd`, `momentum`, `adam`, `adamw` or `rmsprop`.
        rate: the learning rate at its largest.
        schedule: `constant`, `warmup` (50 steps), `cosine` (to zero at step 1,000) or `step` (a
            tenth from step 150 on).
    """

    number: int
    family: str
    blocks: int
    width: int
    layers: int
    norm: str
    order: str
    shortcut: str
    activation: str
    start: str
    task: str
    optimizer: str
    rate: float
    schedule: str

    @property
    def held_out(self) -> bool:
        """Whether it is kept for the last score."""
        return self.family == HELD_OUT_FAMILY or self.task == HELD_OUT_TASK

    def asdict(self) -> dict[str, object]:
        """Its choices by name."""
        return asdict(self)


def draw(number: int) -> Draw:
    """The training of a number.

    Examples:
        >>> draw(7) == draw(7), draw(7) == draw(8)
        (True, False)
    """
    pick = random.Random(f"bathyscope random training {VERSION}.{number}")
    family = pick.choices(FAMILIES, _WEIGHTS)[0]
    attends = family in ("transformer", "gpt")
    optimizer = pick.choices(("sgd", "momentum", "adam", "adamw", "rmsprop"), (15, 30, 30, 15, 10))[
        0
    ]
    high = 0.5 if optimizer in ("sgd", "momentum") else 0.1
    shortcuts = (45, 30, 12, 13) if family in ("mlp", "conv", "bottleneck") else (20, 60, 5, 15)
    layers = pick.choice((1, 2)) if family in ("mlp", "conv") else 1
    most = _MOST_BLOCKS[family] // layers
    return Draw(
        number=number,
        family=family,
        blocks=_log_uniform_count(pick, 1 if attends else 2, most),
        width=pick.choice(_WIDTHS[family]),
        layers=layers,
        norm=pick.choices(("none", "batch", "layer"), (10, 0, 25) if attends else (40, 30, 30))[0],
        order=pick.choice(("pre", "mid", "post")),
        shortcut="none"
        if family in ("sequential", "dense")
        else pick.choices(("none", "pre", "post", "scaled"), shortcuts)[0],
        activation=pick.choices(("relu", "gelu", "tanh", "silu", "sigmoid"), (35, 20, 20, 15, 10))[
            0
        ],
        start=pick.choices(
            ("default", "he", "xavier", "orthogonal", "small", "large"), (30, 20, 15, 15, 10, 10)
        )[0],
        task=_task(pick, family),
        optimizer=optimizer,
        rate=float(f"{_log_uniform(pick, 1e-4, high):.3g}"),
        schedule=pick.choices(("constant", "warmup", "cosine", "step"), (50, 15, 20, 15))[0],
    )


def _task(pick: random.Random, family: str) -> str:
    if family == "gpt":
        return pick.choice(SEQUENCES)
    flat = family in ("mlp", "sequential", "dense")
    easy_and_hard = (32, 14, 16, 8, 10, 10, 10) if flat else (46, 6, 22, 3, 12, 8, 3)
    return pick.choices((*PICTURES, *REGRESSIONS), easy_and_hard)[0]


def _log_uniform(pick: random.Random, low: float, high: float) -> float:
    return math.exp(pick.uniform(math.log(low), math.log(high)))


def _log_uniform_count(pick: random.Random, low: int, high: int) -> int:
    return min(high, int(_log_uniform(pick, low, high + 1)))
