"""How many networks that fail untreated train after `treat`: random deep networks on digits.

A network is drawn from depth × shortcut × norm × activation × initialisation × learning rate, none of
which the rules were tuned on. It fails when 300 steps of SGD with momentum leave its accuracy on the
training set below one half; it trains when they bring it to eight tenths. Each failing network is built
again, diagnosed, treated with 40 steps a trial, and trained for 300 steps. `treat` sees training
batches and nothing else.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import data
from bathyscope.diagnosis import diagnose, treat

_STEPS = 300
_BATCH = 64
_FAILS, _TRAINS = 0.5, 0.8

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "sigmoid": nn.Sigmoid}
STARTS = ("default", "he", "xavier", "orthogonal", "normal 0.05", "twice he")


@dataclass(frozen=True, slots=True)
class Draw:
    """One random network and the learning rate it is trained with."""

    seed: int
    kind: str
    depth: int
    shortcut: bool
    norm: str
    activation: str
    start: str
    lr: float

    @classmethod
    def of(cls, seed: int) -> "Draw":
        """The draw of a seed."""
        pick = random.Random(seed)
        return cls(
            seed=seed,
            kind=pick.choice(("mlp", "conv")),
            depth=pick.choice((10, 20, 30, 40, 60)),
            shortcut=pick.random() < 0.3,
            norm=pick.choice(("none", "none", "batch", "layer")),
            activation=pick.choice(tuple(ACTIVATIONS)),
            start=pick.choice(STARTS),
            lr=pick.choice((0.003, 0.01, 0.1, 0.5)),
        )

    def build(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The network and its optimizer, the same at every call."""
        torch.manual_seed(self.seed)
        width = 48 if self.kind == "mlp" else 8
        stem = [nn.Flatten(), nn.Linear(64, width)]
        pool: list[nn.Module] = []
        if self.kind == "conv":
            stem, pool = (
                [nn.Conv2d(1, width, 3, padding=1)],
                [nn.AdaptiveAvgPool2d(1), nn.Flatten()],
            )
        trunk = [Layer(self, width) for _ in range(self.depth)]
        model = nn.Sequential(*stem, *trunk, *pool, nn.Linear(width, 10))
        return model, torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)


class Layer(nn.Module):
    """A linear map or a 3×3 convolution, a norm, an activation, and perhaps a shortcut around them."""

    def __init__(self, draw: Draw, width: int) -> None:
        super().__init__()
        conv = draw.kind == "conv"
        self.map = nn.Conv2d(width, width, 3, padding=1) if conv else nn.Linear(width, width)
        norms: dict[str, nn.Module] = {
            "none": nn.Identity(),
            "batch": nn.BatchNorm2d(width) if conv else nn.BatchNorm1d(width),
            "layer": nn.GroupNorm(1, width) if conv else nn.LayerNorm(width),
        }
        self.norm, self.act = norms[draw.norm], ACTIVATIONS[draw.activation]()
        self.shortcut = draw.shortcut
        _start(self.map.weight, draw.start)

    def forward(self, x: Tensor) -> Tensor:
        """The layer of x, added to x where there is a shortcut."""
        y = self.act(self.norm(self.map(x)))
        return x + y if self.shortcut else y


def _start(weight: Tensor, scheme: str) -> None:
    if scheme in ("he", "twice he"):
        nn.init.kaiming_normal_(weight)
        if scheme == "twice he":
            weight.data.mul_(2)
    elif scheme == "xavier":
        nn.init.xavier_uniform_(weight)
    elif scheme == "orthogonal":
        nn.init.orthogonal_(weight)
    elif scheme == "normal 0.05":
        nn.init.normal_(weight, std=0.05)


class Digits:
    """The training digits in batches of a fixed order, and the accuracy on all of them."""

    def __init__(self) -> None:
        digits = data.load("digits", normalise=True)
        self.x, self.y = digits.train_inputs, digits.train_labels

    def batches(self, count: int, *, seed: int) -> list[tuple[Tensor, Tensor]]:
        """Random batches."""
        generator = torch.Generator().manual_seed(seed)
        rows = (torch.randint(len(self.x), (_BATCH,), generator=generator) for _ in range(count))
        return [(self.x[r], self.y[r]) for r in rows]

    def accuracy_after_training(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
        """Accuracy on the training set after 300 steps, in the mode of training; 0 where it diverged."""
        model.train()
        for x, y in self.batches(_STEPS, seed=1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if not math.isfinite(loss.item()):
                return 0.0
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = [(model(x).argmax(1) == y).float().mean() for x, y in self.batches(10, seed=2)]
        return float(torch.stack(right).mean())


def lines(*, failing: int = 24, first: int = 0) -> Iterator[dict[str, Any]]:
    """One line for each failing network, and the count."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # fading signals end in numbers that a CPU is slow on
    digits = Digits()
    drawn = done = trained = 0
    while done < failing:
        draw = Draw.of(first + drawn)
        drawn += 1
        before = digits.accuracy_after_training(*draw.build())
        if before >= _FAILS:
            continue
        done += 1
        model, optimizer = draw.build()
        found = diagnose(model, digits.batches(1, seed=3)[0], optimizer=optimizer)
        treatment = treat(model, found, optimizer=optimizer, batches=digits.batches(40, seed=4))
        after = digits.accuracy_after_training(model, optimizer)
        trained += after >= _TRAINS
        yield {
            "benchmark": "treatment",
            "case": asdict(draw),
            "found": [f.code for f in found.findings][:3],
            "applied": treatment.applied,
            "helped": treatment.helped,
            "accuracy": [round(before, 3), round(after, 3)],
        }
    yield {
        "benchmark": "treatment",
        "case": f"networks that fail untreated, of {drawn} drawn",
        "failing": done,
        "train_after_treatment": trained,
        "ratio": round(trained / done, 3),
    }
