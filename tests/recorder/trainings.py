"""Small trainings with an event planted at a known step and place, and the same without."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.recorder import Watch, watch

Plant = Callable[["Training", Tensor, Tensor], tuple[Tensor, Tensor]]


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.two(F.relu(self.one(self.norm(x))))


class ResidualNet(nn.Module):
    def __init__(self, depth=6, width=24, outputs=4):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, outputs)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ConvBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.two, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(self.norm(self.two(x)))


class ConvNet(nn.Module):
    def __init__(self, depth=5, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(ConvBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.stem(x.view(-1, 1, 4, 4))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def plain(depth=6, width=24):
    layers = [nn.Linear(16, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


def gpt(depth=3):
    return nets.build(f"gpt-{depth}", vocabulary=16, width=16, heads=2, context=8)


NETWORKS = {"plain": plain, "residual": ResidualNet, "convolutional": ConvNet, "gpt": gpt}


@dataclass
class Training:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    lasting: Plant | None = None
    """What happens to every batch from the planted step on."""


class Labeled:
    """Labels that the inputs decide, up to noise."""

    def __init__(self, generator):
        self.generator = generator
        self.inputs = torch.randn(1024, 16)
        self.labels = (self.inputs[:, :4] + 0.3 * torch.randn(1024, 4)).argmax(1)

    def batch(self, size):
        chosen = torch.randint(1024, (size,), generator=self.generator)
        return self.inputs[chosen], self.labels[chosen]

    def loss(self, output, labels):
        return F.cross_entropy(output, labels)


class Counting:
    """Sequences that count upwards from anywhere, modulo 16: the next number is asked for."""

    def __init__(self, generator):
        self.generator = generator

    def batch(self, size):
        start = torch.randint(16, (size, 1), generator=self.generator)
        x = (start + torch.arange(8)) % 16
        return x, (x + 1) % 16

    def loss(self, output, labels):
        return F.cross_entropy(output.flatten(0, 1), labels.flatten())


def parameter_groups(model):
    """The maps of each block's attention in a group of their own, by the block; the rest in the first."""
    attention: dict[str, list[nn.Parameter]] = {}
    rest = []
    for name, parameter in model.named_parameters():
        inside = ".attention." in name and parameter.ndim == 2
        (attention.setdefault(name.split(".")[1], []) if inside else rest).append(parameter)
    return [{"params": rest}, *({"params": result} for result in attention.values())]


def train(
    network,
    *,
    seed,
    steps=220,
    at=150,
    plant: Plant | None = None,
    batch_size=32,
    every=20,
    lr=None,
    optimizer="adam",
    **options,
) -> Watch:
    """Train a network on the task that suits it; the planted event comes at step `at`."""
    torch.manual_seed(seed)
    model = NETWORKS[network]()
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
    settings = {"lr": lr or 1e-3} if optimizer == "adam" else {"lr": lr or 0.05, "momentum": 0.9}
    generator = torch.Generator().manual_seed(seed)
    training = Training(model, kind(parameter_groups(model), **settings), generator)
    task = Counting(generator) if network == "gpt" else Labeled(generator)
    with watch(model, every=every, **options) as seen:
        for step in range(steps):
            x, y = task.batch(batch_size)
            if plant is not None and step == at:
                x, y = plant(training, x, y)
            if training.lasting is not None:
                x, y = training.lasting(training, x, y)
            training.optimizer.zero_grad()
            task.loss(model(x), y).backward()
            training.optimizer.step()
    return seen


def layer(training, index):
    """The last weighted layer of the block with this index, as the planted faults use it."""
    model = training.model
    if isinstance(model, nn.Sequential):
        return model[2 * index]
    block = model.blocks[index]
    return block.two if hasattr(block, "two") else block.mlp.branch[1][2]


def label(network, index):
    """What the block is called."""
    return str(2 * index) if network == "plain" else f"blocks.{index}"


def scaled_batch(training, x, y):
    return 300 * x, y


def wrong_labels(training, x, y):
    return x, (y + 1) % 4


def lasting(change: Plant) -> Plant:
    """A change of every batch from the planted step on."""

    def plant(training, x, y):
        training.lasting = change
        return x, y

    return plant


def shuffled_labels(training, x, y):
    return x, y[torch.randperm(len(y), generator=training.generator)]


def scaled_batches(training, x, y):
    return 30 * x, y


def one_batch(training, x, y):
    """The batch of the planted step again and again."""
    training.lasting = lambda training, *_: (x, y)
    return x, y


def nan_batch(training, x, y):
    return torch.where(torch.arange(len(x))[:, None] == 3, torch.nan, x), y


def rate_jump(factor):
    def plant(training, x, y):
        for group in training.optimizer.param_groups:
            group["lr"] *= factor
        return x, y

    return plant


def sharp_attention(index, factor=300):
    """A rate that is far too large for the attention of one block: it comes to look at single keys."""

    def plant(training, x, y):
        training.optimizer.param_groups[1 + index]["lr"] *= factor
        return x, y

    return plant


def rate_to_zero(training, x, y):
    for group in training.optimizer.param_groups:
        group["lr"] = 0.0
    return x, y


def nan_in_block(index):
    def plant(training, x, y):
        layer(training, index).weight.data[0, 0] = torch.nan
        return x, y

    return plant


def overflow_in_block(index):
    """What a short format does to a large value: a weight that overflows in the product."""

    def plant(training, x, y):
        layer(training, index).weight.data.fill_(3e38)
        return x, y

    return plant


def dead_layer(index):
    def plant(training, x, y):
        result = layer(training, index)
        with torch.no_grad():
            result.weight.zero_()
            result.bias.fill_(-1e-3)
        return x, y

    return plant


def corrupted_weights(index, factor=8.0):
    def plant(training, x, y):
        state = {name: value.clone() for name, value in training.model.state_dict().items()}
        wanted = next(
            name
            for name, p in training.model.named_parameters()
            if p is layer(training, index).weight
        )
        state[wanted] *= factor
        training.model.load_state_dict(state)
        return x, y

    return plant
