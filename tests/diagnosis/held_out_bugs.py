"""Further programs with real kinds of bugs, written after the rules and scored once, as they stand.

None of them was diagnosed before this file was committed. `causes` are those that the correction
removes; names are our own.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from torch import nn

from tests.diagnosis.real_bugs import (
    Subject,
    adam,
    binary,
    crossentropy,
    dense,
    digits,
    keras,
    one_hot,
    rmsprop,
    scaled,
    seeded,
    sgd,
    softmax,
    standardized,
)

mnist = digits()


def table(load, *, number=False, column=False):
    def loaded():
        result = load()
        x, y = torch.tensor(result.data).float(), torch.tensor(result.target)
        if number or column:
            y = y.float().unsqueeze(1)
        return x, y.long() if not (number or column) else y

    return loaded


@seeded
def sine(g):
    x = torch.rand(600, 1, generator=g) * 12 - 6
    return x, torch.sin(x)


@seeded
def house_prices(g):
    x = torch.cat(
        [torch.rand(600, 1, generator=g) * 300, torch.randint(1, 9, (600, 1), generator=g)], 1
    )
    return x, 2000 * x[:, :1] + 15000 * x[:, 1:] + 5000 * torch.randn(600, 1, generator=g)


def prices_standardized():
    x, y = house_prices()
    return (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()


def diabetes_standardized():
    x, y = table(load_diabetes, number=True)()
    return (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()


@seeded
def tags(g):
    x = torch.randn(800, 20, generator=g)
    return x, (x[:, :6] + x[:, 6:12] > 0).float()


@seeded
def flags(g):
    y = torch.randint(2, (800,), generator=g)
    return torch.randn(800, 12, generator=g) + y.unsqueeze(1) * 0.8, y


def signed(load):
    def loaded():
        x, y = load()
        return x, (2.0 * y - 1).unsqueeze(1)

    return loaded


def column(load):
    def loaded():
        x, y = load()
        return x, y.float().unsqueeze(1)

    return loaded


def convnet(end):
    return nn.Sequential(
        nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 144, 64), nn.ReLU(),
        nn.Linear(64, 10), *end,
    )  # fmt: skip


images = digits(flat=False)
cancer = table(load_breast_cancer, column=True)
FAULTY = {
    "relu at the end, classes": Subject(
        lambda: keras(convnet([nn.ReLU()])), images, F.cross_entropy, adam(), 32, 5, ("output",)),
    "softmax twice in a convnet": Subject(
        lambda: keras(convnet([softmax()])), images, F.cross_entropy, sgd(), 32, 5, ("output",)),
    "cancer, raw columns, sgd": Subject(
        lambda: keras(dense(30, 16, 1, end=nn.Sigmoid())), cancer, binary, sgd(), 32, 20, ("input",)),
    "wine, raw columns, one hidden unit": Subject(
        lambda: keras(dense(13, 1, 3, end=softmax())), table(load_wine), crossentropy, adam(), 16, 20,
        ("input", "architecture")),
    "prices raw": Subject(
        lambda: keras(dense(2, 16, 16, 1)), house_prices, F.mse_loss, adam(), 32, 20, ("input", "labels")),
    "sine without an activation": Subject(
        lambda: keras(dense(1, 32, 32, 1, activation=None)), sine, F.mse_loss, adam(), 32, 50,
        ("activation",)),
    "tags under a softmax": Subject(
        lambda: keras(dense(20, 32, 6, end=softmax())), tags, binary, adam(), 32, 20, ("output",)),
    "labels −1 and 1 under a sigmoid": Subject(
        lambda: keras(dense(12, 16, 1, end=nn.Sigmoid())), signed(flags), F.mse_loss, sgd(), 32, 30,
        ("output", "labels")),
    "two classes, one softmax unit": Subject(
        lambda: keras(dense(12, 16, 1, end=softmax())), column(flags), F.mse_loss, adam(), 32, 20,
        ("output",)),
    "rate 10 for digits": Subject(
        lambda: keras(dense(784, 64, 10, end=softmax())), mnist, crossentropy, sgd(10.0), 32, 10,
        ("learning-rate",)),
    "rate 1e-6 for digits": Subject(
        lambda: keras(dense(784, 64, 10, end=softmax())), mnist, crossentropy, adam(1e-6), 32, 5,
        ("learning-rate", "budget")),
    "six sigmoid layers": Subject(
        lambda: keras(dense(784, *[40] * 6, 10, activation=nn.Sigmoid, end=softmax())), mnist, crossentropy,
        sgd(), 32, 10, ("activation", "learning-rate", "budget")),
    "absolute error on one-hot": Subject(
        lambda: keras(dense(784, 64, 10, end=nn.Sigmoid())), one_hot(mnist), F.l1_loss, sgd(), 32, 5,
        ("loss", "learning-rate", "budget")),
    "diabetes under a tanh": Subject(
        lambda: keras(dense(10, 16, 1, end=nn.Tanh())), table(load_diabetes, number=True), F.mse_loss, adam(),
        16, 20, ("output", "labels")),
    "bytes and large rate": Subject(
        lambda: keras(convnet([softmax()])), scaled(images, 255.0), crossentropy, sgd(0.1), 32, 5,
        ("input", "learning-rate")),
}  # fmt: skip
CORRECTED = {
    "relu at the end, classes": Subject(
        lambda: keras(convnet([])), images, F.cross_entropy, adam(), 32, 5),
    "softmax twice in a convnet": Subject(
        lambda: keras(convnet([])), images, F.cross_entropy, sgd(0.05), 32, 5),
    "cancer, raw columns, sgd": Subject(
        lambda: keras(dense(30, 16, 1, end=nn.Sigmoid())), standardized(cancer), binary, sgd(0.1), 32, 20),
    "wine, raw columns, one hidden unit": Subject(
        lambda: keras(dense(13, 16, 3, end=softmax())), standardized(table(load_wine)), crossentropy,
        adam(1e-2), 16, 20),
    "prices raw": Subject(
        lambda: keras(dense(2, 16, 16, 1)), prices_standardized, F.mse_loss, adam(), 32, 50),
    "sine without an activation": Subject(
        lambda: keras(dense(1, 32, 32, 1, activation=nn.Tanh)), sine, F.mse_loss, adam(), 32, 100),
    "tags under a softmax": Subject(
        lambda: keras(dense(20, 32, 6, end=nn.Sigmoid())), tags, binary, adam(), 32, 40),
    "labels −1 and 1 under a sigmoid": Subject(
        lambda: keras(dense(12, 16, 1, end=nn.Tanh())), signed(flags), F.mse_loss, sgd(0.05), 32, 30),
    "two classes, one softmax unit": Subject(
        lambda: keras(dense(12, 16, 1, end=nn.Sigmoid())), column(flags), binary, adam(), 32, 40),
    "rate 10 for digits": Subject(
        lambda: keras(dense(784, 64, 10, end=softmax())), mnist, crossentropy, sgd(0.1), 32, 10),
    "rate 1e-6 for digits": Subject(
        lambda: keras(dense(784, 64, 10, end=softmax())), mnist, crossentropy, adam(), 32, 5),
    "six sigmoid layers": Subject(
        lambda: keras(dense(784, *[40] * 6, 10, end=softmax())), mnist, crossentropy, adam(), 32, 10),
    "absolute error on one-hot": Subject(
        lambda: keras(dense(784, 64, 10, end=softmax())), mnist, crossentropy, rmsprop(), 32, 5),
    "diabetes under a tanh": Subject(
        lambda: keras(dense(10, 16, 1)), diabetes_standardized, F.mse_loss, adam(), 16, 40),
    "bytes and large rate": Subject(
        lambda: keras(convnet([softmax()])), images, crossentropy, sgd(0.05), 32, 5),
}  # fmt: skip
