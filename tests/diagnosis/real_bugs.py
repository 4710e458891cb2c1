"""Fifteen programs from forums that ran and did not learn, and their corrected versions, in PyTorch.

Written again from descriptions, with Keras's defaults: Glorot uniform weights, zero biases, Adam and
RMSprop at 1e-3, SGD at 1e-2. Digits of 8×8 stand in for MNIST (enlarged to 28×28 where the size
matters) and, as three channels of 32×32, for CIFAR-10; the census table is drawn with the ranges of
the real one. `causes` says which causes the corrections remove.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_iris
from torch import Tensor, nn

from bathyscope import data


@dataclass(frozen=True, slots=True)
class Subject:
    """A program: the network, its data, loss and optimizer, the batch size and passes over the data."""

    build: Callable[[], nn.Module]
    data: Callable[[], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    batch: int
    passes: int
    causes: tuple[str, ...] = ()

    def budget(self, samples: int) -> int:
        return max(1, self.passes * max(1, samples // self.batch))


def keras(model: nn.Module, *, std: float | None = None) -> nn.Module:
    """Keras's start: Glorot uniform, or normal with a deviation, and zero biases."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            if std is None:
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, 0.0, std)
            nn.init.zeros_(module.bias)
    return model


def crossentropy(p: Tensor, y: Tensor) -> Tensor:
    """Keras's categorical cross-entropy on probabilities: divided by their sum, clipped."""
    p = (p / p.sum(1, keepdim=True)).clamp(1e-7, 1 - 1e-7)
    return -p.gather(1, y.unsqueeze(1)).log().mean()


def binary(p: Tensor, y: Tensor) -> Tensor:
    """Keras's binary cross-entropy: clipped before the logarithms."""
    p = p.clamp(1e-7, 1 - 1e-7)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def sgd(lr=1e-2, **options):
    return lambda model: torch.optim.SGD(model.parameters(), lr=lr, **options)


def adam(lr=1e-3):
    return lambda model: torch.optim.Adam(model.parameters(), lr=lr, eps=1e-7)


def rmsprop(lr=1e-3):
    return lambda model: torch.optim.RMSprop(model.parameters(), lr=lr, alpha=0.9, eps=1e-7)


def digits(*, flat=True, size=28, channels=1):
    def load():
        loaded = data.load("digits")
        x = F.interpolate(loaded.train_inputs.float(), size=(size, size), mode="bilinear")
        x = x / x.max()
        x = x.expand(-1, channels, -1, -1).clone()
        return (x.flatten(1) if flat else x), loaded.train_labels

    return load


def one_hot(load):
    def loaded():
        x, y = load()
        return x, F.one_hot(y, 10).float()

    return loaded


def scaled(load, factor):
    def loaded():
        x, y = load()
        return x * factor, y

    return loaded


def seeded(make):
    def load():
        return make(torch.Generator().manual_seed(5))

    return load


@seeded
def ones_or_zeros(g):
    y = torch.randint(2, (1000, 1), generator=g).float()
    return y.expand(-1, 128).clone(), y


@seeded
def one_column(g):
    x = torch.rand(1000, 1, generator=g) * 200
    return x, (x > 100).float()


def standardized(load):
    def loaded():
        x, y = load()
        return (x - x.mean(0)) / x.std(0).clamp_min(1e-6), y

    return loaded


@seeded
def census(g):
    """Fourteen columns with the ranges of the census table: ages, codes, weights, gains, hours."""
    n = 2000
    age = torch.randint(17, 90, (n, 1), generator=g).float()
    weight = torch.rand(n, 1, generator=g) * 8e5 + 1e4
    gain = (torch.rand(n, 1, generator=g) < 0.1).float() * torch.rand(n, 1, generator=g) * 1e5
    hours = torch.randint(1, 99, (n, 1), generator=g).float()
    codes = torch.randint(0, 16, (n, 9), generator=g).float()
    flag = torch.randint(0, 2, (n, 1), generator=g).float()
    x = torch.cat([age, weight, gain, hours, codes, flag], 1)
    score = (age - 45) / 20 + (hours - 50) / 30 + (codes[:, :1] - 8) / 4 + (gain > 2e4) * 2 - 1
    return x, (score.squeeze(1) > 0).long()


@seeded
def fourth_power(g):
    x = torch.rand(1000, 1, generator=g) * 200 - 100
    return x, x**4


def both_standardized(load):
    def loaded():
        x, y = load()
        return (x - x.mean()) / x.std(), (y - y.mean()) / y.std()

    return loaded


@seeded
def tens(g):
    x = torch.rand(400, 1, generator=g) * 5
    return x, 10 * x + 20 + 12 * torch.randn(400, 1, generator=g)


@seeded
def three_kinds_of_image(g):
    y = torch.randint(3, (600,), generator=g)
    x = 0.2 * torch.rand(600, 1, 16, 16, generator=g)
    for k in range(3):
        x[y == k, :, 5 * k : 5 * k + 5] += 0.7
    return x, y


def as_numbers(load):
    def loaded():
        x, y = load()
        return x, y.float().unsqueeze(1)

    return loaded


def xor():
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    return x, torch.tensor([[0.0], [1.0], [1.0], [0.0]])


@seeded
def permuted_bits(g):
    x = torch.randint(2, (1000, 8), generator=g).float()
    return x, x[:, torch.randperm(8, generator=g)]


def iris():
    loaded = load_iris()
    return torch.tensor(loaded.data).float(), torch.tensor(loaded.target).long()


def iris_in_unit_range():
    x, y = iris()
    return (x - x.amin(0)) / (x.amax(0) - x.amin(0)), y


@seeded
def two_blobs(g):
    y = torch.randint(2, (1000,), generator=g)
    center = torch.where(y.unsqueeze(1) == 1, 0.57, 0.33)
    return center + 0.05 * torch.randn(1000, 2, generator=g), y


@seeded
def life(g):
    board = torch.randint(2, (512, 1, 5, 5), generator=g).float()
    sums = F.conv2d(board, torch.ones(1, 1, 3, 3)) - board[:, :, 1:-1, 1:-1]
    alive = (sums == 3) | ((sums == 2) & (board[:, :, 1:-1, 1:-1] == 1))
    return board, alive.float()


def dense(*widths, activation=nn.ReLU, end=None, dropout=0.0):
    layers: list[nn.Module] = []
    for before, after in pairwise(widths[:-1]):
        layers += [nn.Linear(before, after), *([activation()] if activation else [])]
        layers += [nn.Dropout(dropout)] if dropout else []
    layers += [nn.Linear(widths[-2], widths[-1]), *([end] if end is not None else [])]
    return nn.Sequential(*layers)


def two_kinds(first, second):
    return nn.Sequential(nn.Linear(1, 50), first, nn.Linear(50, 50), second, nn.Linear(50, 1))


def small_convnet(outputs, end):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(400, 32), nn.ReLU(), nn.Linear(32, outputs), end,
    )  # fmt: skip


def color_convnet(width=32):
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, width, 3),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * 49, 512), nn.ReLU(),
        nn.Dropout(0.3), nn.Linear(512, 10), nn.Softmax(1),
    )  # fmt: skip
    for layer in (model[0], model[3]):
        nn.init.kaiming_uniform_(layer.weight)
    return model


def board_convnet():
    return nn.Sequential(
        nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Conv2d(10, 20, 1), nn.ReLU(), nn.Conv2d(20, 1, 1),
        nn.Sigmoid(),
    )  # fmt: skip


def softmax():
    return nn.Softmax(1)


mnist = digits()
FAULTY = {
    "48385830": Subject(
        lambda: keras(dense(784, 30, 10, activation=None), std=1.0), one_hot(mnist), F.mse_loss,
        sgd(3.0), 10, 30, ("activation", "loss", "learning-rate"),
    ),
    "31880720": Subject(
        lambda: keras(dense(128, 50, 50, 1, end=softmax(), dropout=0.2)), ones_or_zeros, binary,
        rmsprop(), 1, 3, ("output", "budget"),
    ),
    "45442843": Subject(
        lambda: keras(dense(1, 1, 1, activation=nn.Sigmoid, end=softmax())), one_column, F.l1_loss,
        rmsprop(), 32, 10, ("loss", "optimizer", "output", "budget", "input"),
    ),
    "47724077": Subject(
        lambda: keras(dense(14, 21, 2, end=softmax())), census, crossentropy, adam(), 32, 10,
        ("input", "optimizer", "learning-rate", "budget"),
    ),
    "52800582": Subject(
        lambda: keras(two_kinds(nn.Sigmoid(), nn.ELU())),
        fourth_power, F.mse_loss, adam(), 50, 50, ("input", "labels"),
    ),
    "48221692": Subject(
        lambda: keras(dense(1, 5, 1, end=nn.Sigmoid())), tens, F.mse_loss, sgd(), 32, 50, ("output",),
    ),
    "50079585": Subject(
        lambda: keras(small_convnet(1, nn.Sigmoid())), as_numbers(three_kinds_of_image), binary,
        rmsprop(), 32, 10, ("output", "loss", "architecture", "learning-rate", "budget"),
    ),
    "31556268": Subject(
        lambda: keras(dense(2, 4, 1, activation=nn.Sigmoid, end=nn.Sigmoid())), xor, F.l1_loss,
        sgd(0.05, momentum=0.11, nesterov=True), 4, 1000,
        ("loss", "budget", "learning-rate", "optimizer"),
    ),
    "39217567": Subject(
        lambda: keras(dense(8, 8, 8, 8, activation=nn.Sigmoid, end=nn.Sigmoid()), std=0.05),
        permuted_bits, F.mse_loss, sgd(), 50, 100, ("activation", "batch"),
    ),
    "51930566": Subject(
        lambda: keras(dense(4, 4, 3, end=nn.Sigmoid()), std=0.05), iris, crossentropy, adam(), 5, 50,
        ("output",),
    ),
    "59278771": Subject(
        lambda: keras(dense(4, 4, 3, end=nn.Sigmoid()), std=0.05), iris, crossentropy, adam(), 5, 200,
        ("output", "optimizer", "input"),
    ),
    "48594888": Subject(
        lambda: keras(color_convnet()), scaled(digits(flat=False, size=32, channels=3), 255.0),
        crossentropy, adam(), 32, 1, ("budget", "batch", "input"),
    ),
    "44164749": Subject(
        lambda: keras(dense(784, 5000, 600, 10, end=softmax(), dropout=0.1)), mnist, crossentropy,
        sgd(0.01, momentum=0.9, nesterov=True), 2000, 5, ("budget", "learning-rate"),
    ),
    "50306988": Subject(
        lambda: keras(dense(2, 2, 2, activation=nn.Sigmoid, end=softmax())), two_blobs, crossentropy,
        adam(), 32, 5, ("learning-rate", "budget"),
    ),
    "gol_nn": Subject(
        lambda: keras(board_convnet()), life, binary, adam(), 32, 2, ("loss", "budget", "learning-rate"),
    ),
}  # fmt: skip
CORRECTED = {
    "48385830": Subject(
        lambda: keras(dense(784, 30, 10, activation=nn.Sigmoid, end=softmax())), mnist, crossentropy,
        sgd(0.5), 10, 30,
    ),
    "31880720": Subject(
        lambda: keras(dense(128, 50, 50, 1, end=nn.Sigmoid(), dropout=0.2)), ones_or_zeros, binary,
        rmsprop(), 1, 10,
    ),
    "45442843": Subject(
        lambda: keras(dense(1, 1, 1, activation=nn.Sigmoid, end=nn.Sigmoid())), standardized(one_column),
        binary, adam(1e-2), 32, 100,
    ),
    "47724077": Subject(
        lambda: keras(dense(14, 21, 2, end=softmax())), standardized(census), crossentropy, sgd(), 32, 50,
    ),
    "52800582": Subject(
        lambda: keras(two_kinds(nn.ReLU(), nn.ELU())),
        both_standardized(fourth_power), F.mse_loss, adam(), 50, 50,
    ),
    "48221692": Subject(
        lambda: keras(dense(1, 5, 1)), tens, F.mse_loss, sgd(1e-3), 32, 100,
    ),
    "50079585": Subject(
        lambda: keras(small_convnet(3, softmax())), three_kinds_of_image, crossentropy, adam(), 32, 20,
    ),
    "31556268": Subject(
        lambda: keras(dense(2, 4, 1, activation=nn.Sigmoid, end=nn.Sigmoid())), xor, F.mse_loss,
        adam(1e-2), 4, 10000,
    ),
    "39217567": Subject(
        lambda: keras(dense(8, 8, 8, 8, end=nn.Sigmoid())), permuted_bits, binary, adam(), 1, 20,
    ),
    "51930566": Subject(
        lambda: keras(dense(4, 4, 3, end=softmax())), standardized(iris), crossentropy, adam(), 5, 100,
    ),
    "59278771": Subject(
        lambda: keras(dense(4, 8, 8, 3, end=softmax())), iris_in_unit_range, crossentropy, adam(), 5, 200,
    ),
    "48594888": Subject(
        lambda: keras(color_convnet(48)), digits(flat=False, size=32, channels=3), crossentropy, adam(),
        64, 30,
    ),
    "44164749": Subject(
        lambda: keras(dense(784, 5000, 600, 10, end=softmax(), dropout=0.1)), mnist, crossentropy,
        sgd(0.05, momentum=0.9, nesterov=True), 200, 10,
    ),
    "50306988": Subject(
        lambda: keras(dense(2, 2, 2, activation=nn.Sigmoid, end=softmax())), two_blobs, crossentropy,
        adam(1e-2), 32, 50,
    ),
    "gol_nn": Subject(
        lambda: keras(board_convnet()), life, F.mse_loss, adam(1e-2), 32, 60,
    ),
}  # fmt: skip


def diagnosed(subject: Subject, *, seed: int = 0, size: int = 64, **options: Any):
    """The diagnosis of a program on its first batch; batches of a few samples are measured on 64."""
    from bathyscope.diagnosis import diagnose

    torch.manual_seed(seed)
    x, y = subject.data()
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:size]
    model = subject.build()
    return diagnose(
        model,
        (x[rows], y[rows]),
        loss=subject.loss,
        optimizer=subject.optimizer(model),
        budget=subject.budget(len(x)),
        **options,
    )
