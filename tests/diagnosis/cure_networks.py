"""Networks of many builds, and the recipes that would race for them: thirty of these are printed as code."""

import random

import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.blocks import blocks_of
from bathyscope.diagnosis.candidates import candidates
from bathyscope.remedies import CHANGE_LEVELS
from bathyscope.rules.targeted.context import Context


class Block(nn.Module):
    """Two maps, called with a mask that may be missing."""

    def __init__(self, size):
        super().__init__()
        self.one, self.two = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x, mask=None):
        x = self.two(torch.tanh(self.one(x)))
        return x if mask is None else x * mask


class Stack(nn.Module):
    """Blocks of one's own in a list."""

    def __init__(self, depth=12, size=16):
        super().__init__()
        self.stem, self.head = nn.Linear(64, size), nn.Linear(size, 10)
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))

    def forward(self, x):
        x = self.stem(x.flatten(1))
        for block in self.blocks:
            x = block(x, mask=None)
        return self.head(x)


class Overwriting(nn.Module):
    """A block that changes its input in place."""

    def __init__(self, size):
        super().__init__()
        self.act, self.map = nn.ReLU(inplace=True), nn.Linear(size, size)

    def forward(self, x):
        return self.map(self.act(x))


class Recurrent(nn.Module):
    """An LSTM over the rows of an image."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.lstm(x.squeeze(1))[0][:, -1])


def flat_mlp():
    layers = [m for _ in range(20) for m in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), *layers, nn.Linear(32, 10))


def nested_mlp():
    blocks = [nn.Sequential(nn.Linear(24, 24), nn.Sigmoid()) for _ in range(16)]
    stem = [nn.Flatten(), nn.Linear(64, 24)]
    return nn.Sequential(*stem, nn.Sequential(*blocks), nn.Linear(24, 10), nn.Softmax(dim=1))


def convolutions():
    def layer(a, b, stride):
        return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.ReLU())

    widths = [(1, 8, 1), *[(8, 8, 1)] * 5, (8, 16, 2), *[(16, 16, 1)] * 5]
    return nn.Sequential(
        *(layer(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(
        nn.Flatten(1, 2),
        nn.Linear(8, 16),
        nn.TransformerEncoder(layer, 4),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


NETWORKS = {
    "flat-mlp": flat_mlp,
    "nested-mlp": nested_mlp,
    "convolutions": convolutions,
    "stack": Stack,
    "overwriting": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), *(Overwriting(16) for _ in range(8)), nn.Linear(16, 10)
    ),
    "recurrent": Recurrent,
    "encoder": encoder,
    "plain-20": lambda: bs.nets.build("plain-20", in_channels=1),
    "preresnet-20": lambda: bs.nets.build("preresnet-20", in_channels=1),
    "vit-4": lambda: bs.nets.build("vit-4", in_channels=1, image_size=8),
}


def fresh(name):
    """A network of that name, in float64 so that rounding is not what differs, and its optimizer."""
    torch.manual_seed(3)
    model = NETWORKS[name]().double()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batch():
    digits = bs.data.load("digits", normalize=True, num_train=16)
    return digits.train_inputs.double(), digits.train_labels


def recipes_of(name):
    """All recipes that could enter the race for a network."""
    model, optimizer = fresh(name)
    x, y = batch()
    blocks = blocks_of(model, x)
    context = Context(model, optimizer, (x, y), blocks, (), F.cross_entropy)
    return [c.recipe for c in candidates(context, CHANGE_LEVELS, 32)]


def thirty():
    """Thirty cures, three of each network, drawn by a seed."""
    draw = random.Random(35)
    return [(name, recipe) for name in NETWORKS for recipe in draw.sample(recipes_of(name), 3)]
