"""Deep networks with one fault whose effects show in many findings. Nothing here knows the rules.

A chain is a function that gives `(model, batch, loss)`; `CHAINS` has the code and the block of its root.
"""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, CLASSES = 32, 4


def task(scale=1.0):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(64, WIDTH, generator=generator)
    return scale * x, x[:, :CLASSES].argmax(1)


class Residual(nn.Module):
    """x + W₂ relu(W₁ LN(x)) / √depth, and what `change` makes of the output of block `at`."""

    def __init__(self, depth=40, *, at=None, change=None):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Branch(depth) for _ in range(depth)])
        self.head = nn.Linear(WIDTH, CLASSES)
        if change is not None:
            self.blocks[at].change = change

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Branch(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(WIDTH), depth**-0.5
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.change = nn.Identity()

    def forward(self, x):
        return self.change(x + self.scale * self.two(torch.relu(self.one(self.norm(x)))))


def chain(depth, activation, *, gain=1.0, norm=False, outputs=CLASSES, end=()):
    """Orthogonal layers with an activation behind each."""
    torch.manual_seed(0)
    layers = []
    for _ in range(depth):
        layers.append(nn.Linear(WIDTH, WIDTH))
        nn.init.orthogonal_(layers[-1].weight, gain=gain)
        nn.init.zeros_(layers[-1].bias)
        layers += [nn.LayerNorm(WIDTH)] * norm + [activation()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, outputs), *end)


class Same(nn.Module):
    """The mean of the samples, repeated."""

    def forward(self, x):
        return x.mean(0, keepdim=True).expand_as(x)


class Times(nn.Module):
    def __init__(self, factor, offset=0.0):
        super().__init__()
        self.factor, self.offset = factor, offset

    def forward(self, x):
        return self.factor * x + self.offset


class Detached(nn.Module):
    def forward(self, x):
        return x.detach()


def sigmoids():
    torch.manual_seed(0)
    layers = [layer for _ in range(40) for layer in (nn.Linear(WIDTH, WIDTH), nn.Sigmoid())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)), task(), F.cross_entropy


def small_tanh():
    return chain(40, nn.Tanh, gain=0.3), task(), F.cross_entropy


def growing():
    return chain(36, lambda: nn.LeakyReLU(0.9), gain=1.5), task(), F.cross_entropy


def collapse():
    return Residual(at=12, change=Same()), task(), F.cross_entropy


def loud_block():
    return Residual(at=20, change=Times(300.0)), task(), F.cross_entropy


def offset():
    return Residual(at=15, change=Times(1.0, 1e7)), task(), F.cross_entropy


def cut():
    return Residual(at=22, change=Detached()), task(), F.cross_entropy


def huge_weights():
    model = Residual()
    with torch.no_grad():
        model.blocks[9].two.weight.mul_(1e5)
    return model, task(), F.cross_entropy


def lost_weight():
    model = Residual()
    with torch.no_grad():
        model.blocks[17].one.weight[0, 0] = torch.nan
    return model, task(), F.cross_entropy


def zero_layer():
    model = chain(24, lambda: nn.LeakyReLU(0.8), norm=True)
    with torch.no_grad():
        model[3 * 7].weight.zero_()
    return model, task(), F.cross_entropy


def dead_layer():
    model = chain(24, nn.ReLU, gain=2**0.5, norm=True)
    with torch.no_grad():
        model[3 * 5 + 1].bias.fill_(-100.0)
    return model, task(), F.cross_entropy


def raw_input():
    return chain(12, lambda: nn.LeakyReLU(0.8)), task(1e4), F.cross_entropy


def blank_input():
    x, y = task(0.0)
    return chain(12, nn.Tanh), (x, y), F.cross_entropy


def lone_softmax():
    x, y = task()
    target = (y > 1).float()[:, None]
    model = chain(12, lambda: nn.LeakyReLU(0.8), outputs=1, end=(nn.Softmax(1),))
    return model, (x, target), F.binary_cross_entropy


CHAINS = {
    "sigmoids": (sigmoids, "vanishing-gradient", None),
    "small-tanh": (small_tanh, "vanishing-gradient", None),
    "growing": (growing, "exploding-gradient", None),
    "collapse": (collapse, "collapsed-representation", "blocks.12"),
    "loud-block": (loud_block, "not-norm-preserving", "blocks.20"),
    "offset": (offset, "precision-loss", "blocks.15"),
    "cut": (cut, "cut-gradient", "blocks.22"),
    "huge-weights": (huge_weights, "exploding-weights", "blocks.9"),
    "lost-weight": (lost_weight, "non-finite", "blocks.17"),
    "zero-layer": (zero_layer, "zero-weights", "21"),
    "dead-layer": (dead_layer, "dead-units", "15"),
    "raw-input": (raw_input, "unscaled-input", "0"),
    "blank-input": (blank_input, "blank-input", None),
    "lone-softmax": (lone_softmax, "one-unit-softmax", None),
}
