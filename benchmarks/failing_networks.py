"""Random small networks of which many fail, each rebuilt from its number: what `treat` is scored on.

Numbers from 10,000 on are for development: MLPs, Sequentials, convolutional networks and transformers on
digits and generated data. Numbers below are for scoring: recurrent networks and Fashion-MNIST too, which
were not treated before. The data are such that a sound network of each family learns them: on the first
500 pictures of Fashion-MNIST one with Adam at 3e-3 reaches 80 % in 300 steps. A network fails where both
of two trainings of 300 steps, with other weights and batches, leave its accuracy on the training data
below one half; it trains at eight tenths.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import data
from bathyscope.core.batch import LossFn
from bathyscope.diagnosis.race import label_accuracy
from tools.forecast_table.tasks import task as table_task

STEPS, BATCH = 300, 32
FAILS, TRAINS = 0.5, 0.8
DEVELOPMENT = 10_000
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "elu": nn.ELU,
}
STARTS = ("default", "he", "orthogonal", "normal 0.05", "twice he")


@dataclass(frozen=True, slots=True)
class FailureDraw:
    """One random network with its data, its optimizer and its learning rate."""

    number: int
    family: str
    task: str
    depth: int
    width: int
    norm: str
    shortcut: str
    activation: str
    start: str
    optimizer: str
    lr: float

    @classmethod
    def of(cls, number: int) -> "FailureDraw":
        """The draw of a number."""
        pick = random.Random(number)
        scoring = number < DEVELOPMENT
        families = ["mlp", "mlp", "sequential", "conv", "conv", "transformer"]
        family = pick.choice([*families, "recurrent"] if scoring else families)
        task = pick.choice(
            ["digits", "generated", "fashion"] if scoring else ["digits", "generated"]
        )
        # clouds have no neighbors: what pools maps or reads rows cannot distinguish them in 300 steps
        if task == "generated" and family in ("conv", "transformer", "recurrent"):
            task = "stripes"
        deepest = {"mlp": 50, "sequential": 50, "conv": 24, "transformer": 10, "recurrent": 3}[
            family
        ]
        optimizer = pick.choice(["sgd", "adam"])
        high = 0.5 if optimizer == "sgd" else 0.1
        return cls(
            number=number,
            family=family,
            task=task,
            depth=round(math.exp(pick.uniform(math.log(2), math.log(deepest)))),
            width=pick.choice([24, 32, 48]) if family != "conv" else pick.choice([8, 12]),
            norm=pick.choice(["none", "none", "batch", "layer"]),
            shortcut=pick.choice(["none", "none", "pre", "post"]),
            activation=pick.choice(list(ACTIVATIONS)),
            start=pick.choice(STARTS),
            optimizer=optimizer,
            lr=math.exp(pick.uniform(math.log(1e-4), math.log(high))),
        )

    def build(self, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The network from this seed, and its optimizer."""
        torch.manual_seed(1000 * self.number + seed)
        model = _FAMILIES[self.family](self)
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)) and module is not model[-1]:
                start_(module.weight, self.start)
        return model, self.optimizer_of(model)

    def optimizer_of(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer that the draw names."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)
        return torch.optim.Adam(model.parameters(), lr=self.lr)


def start_(weight: Tensor, scheme: str) -> None:
    """Fill a weight by the scheme's name."""
    if scheme in ("he", "twice he"):
        nn.init.kaiming_normal_(weight)
        weight.data.mul_(2 if scheme == "twice he" else 1)
    elif scheme == "orthogonal":
        nn.init.orthogonal_(weight)
    elif scheme == "normal 0.05":
        nn.init.normal_(weight, std=0.05)


class DrawnBlock(nn.Module):
    """A linear map or a convolution, a norm, an activation; perhaps a shortcut before or after it."""

    def __init__(self, draw: FailureDraw, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        conv = draw.family == "conv"
        self.map = (
            nn.Conv2d(inputs, outputs, 3, stride, padding=1) if conv else nn.Linear(inputs, outputs)
        )
        self.norm = drawn_norm(draw, outputs)
        self.act = ACTIVATIONS[draw.activation]()
        self.shortcut = draw.shortcut if inputs == outputs and stride == 1 else "none"

    def forward(self, x: Tensor) -> Tensor:
        """The block of x, with its shortcut."""
        y = self.norm(self.map(x))
        if self.shortcut == "post":
            return self.act(x + y)
        return x + self.act(y) if self.shortcut == "pre" else self.act(y)


def drawn_norm(draw: FailureDraw, width: int) -> nn.Module:
    """The norm that the draw names."""
    if draw.norm == "batch":
        return nn.BatchNorm2d(width) if draw.family == "conv" else nn.BatchNorm1d(width)
    if draw.norm == "layer":
        return nn.GroupNorm(1, width) if draw.family == "conv" else nn.LayerNorm(width)
    return nn.Identity()


def _mlp(draw: FailureDraw) -> nn.Sequential:
    body = [DrawnBlock(draw, draw.width, draw.width) for _ in range(draw.depth)]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, draw.width), *body, nn.Linear(draw.width, 10))


def _sequential(draw: FailureDraw) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for i in range(draw.depth):
        layers.append(nn.Linear(draw.width if i else 64, draw.width))
        if draw.norm != "none":
            layers.append(drawn_norm(draw, draw.width))
        layers.append(ACTIVATIONS[draw.activation]())
    return nn.Sequential(*layers, nn.Linear(draw.width, 10))


def _conv(draw: FailureDraw) -> nn.Sequential:
    half, width = draw.depth // 2, draw.width
    body = [
        *(DrawnBlock(draw, width, width) for _ in range(half)),
        DrawnBlock(draw, width, 2 * width, stride=2),
        *(DrawnBlock(draw, 2 * width, 2 * width) for _ in range(draw.depth - half - 1)),
    ]
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10)
    return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), *body, *ends)


class Tokens(nn.Module):
    """One row of pixels is one token."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1, h, w) to (n, h, w)."""
        return x.squeeze(1)


class Positions(nn.Module):
    """A learned vector added to each of eight tokens: without it their order would be lost."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(8, width))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 8, d) to the same."""
        return x + self.table


class MeanToken(nn.Module):
    """The mean over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, t, d) to (n, d)."""
        return x.mean(1)


def _transformer(draw: FailureDraw) -> nn.Sequential:
    layers = [
        nn.TransformerEncoderLayer(
            draw.width,
            4,
            2 * draw.width,
            dropout=0.0,
            activation=F.relu if draw.activation == "relu" else F.gelu,
            batch_first=True,
            norm_first=draw.shortcut != "post",
        )
        for _ in range(draw.depth)
    ]
    ends = MeanToken(), nn.Linear(draw.width, 10)
    return nn.Sequential(Tokens(), nn.Linear(8, draw.width), Positions(draw.width), *layers, *ends)


class LastState(nn.Module):
    """A recurrent layer over the rows of pixels, and its last state."""

    def __init__(self, draw: FailureDraw) -> None:
        super().__init__()
        kind = {"relu": nn.RNN, "tanh": nn.RNN, "gelu": nn.LSTM}.get(draw.activation, nn.GRU)
        options = {"nonlinearity": draw.activation} if kind is nn.RNN else {}
        self.cell = kind(8, draw.width, draw.depth, batch_first=True, **options)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1, h, w), row by row."""
        states: Tensor = self.cell(x.squeeze(1))[0]
        return states[:, -1]


def _recurrent(draw: FailureDraw) -> nn.Sequential:
    return nn.Sequential(LastState(draw), nn.Linear(draw.width, 10))


_FAMILIES = {
    "mlp": _mlp,
    "sequential": _sequential,
    "conv": _conv,
    "transformer": _transformer,
    "recurrent": _recurrent,
}


class FailureTask:
    """Training data of 8×8 pixels in random batches, and the accuracy on them."""

    def __init__(self, name: str) -> None:
        self.loss: LossFn = F.cross_entropy
        if name == "stripes":
            drawn = table_task(name)
            self.x, self.y = drawn.inputs, drawn.targets
            return
        source = {"generated": "synthetic:gaussian", "fashion": "fashion-mnist"}.get(name, name)
        loaded = data.load(source, normalize=True)
        most = 500 if name == "fashion" else 4000  # few enough to be learned in 300 steps
        self.x, self.y = loaded.train_inputs[:most], loaded.train_labels[:most]
        if self.x.shape[-1] != 8:
            self.x = F.adaptive_avg_pool2d(self.x, 8)

    def batches(self, count: int, *, seed: int) -> list[tuple[Tensor, Tensor]]:
        """Random batches."""
        generator = torch.Generator().manual_seed(seed)
        rows = (torch.randint(len(self.x), (BATCH,), generator=generator) for _ in range(count))
        return [(self.x[r], self.y[r]) for r in rows]

    def accuracy_after_training(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, *, seed: int
    ) -> float:
        """Accuracy on the training data after 300 steps, in the mode of training; 0 where it diverged."""
        model.train()
        for x, y in self.batches(STEPS, seed=seed):
            optimizer.zero_grad()
            loss = self.loss(model(x), y)
            if not math.isfinite(loss.item()):
                return 0.0
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            fractions = [label_accuracy(model(x), y) for x, y in self.batches(16, seed=seed + 1)]
        return fmean(fraction or 0.0 for fraction in fractions)


@cache
def task_of(name: str) -> FailureTask:
    """The task of that name, loaded once."""
    return FailureTask(name)


def untreated_accuracies(
    build: Callable[[int], tuple[nn.Module, torch.optim.Optimizer]], task: FailureTask
) -> tuple[float, ...]:
    """Accuracy after each of two trainings; of the first alone where it does not fail."""
    first = task.accuracy_after_training(*build(0), seed=100)
    if first >= FAILS:
        return (first,)
    return first, task.accuracy_after_training(*build(1), seed=200)


def is_failing(accuracies: tuple[float, ...]) -> bool:
    """Whether both trainings failed."""
    return len(accuracies) == 2 and max(accuracies) < FAILS
