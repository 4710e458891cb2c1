"""Networks in pieces, run piece by piece: every block alone, forward and back, in float64."""

import copy
import itertools
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

from tests.core import lookalikes as like


@dataclass
class Pieces:
    """A network as stem, blocks and head, with the names of its blocks."""

    model: nn.Module
    batch: tuple
    names: list
    stem: object
    blocks: list
    head: object
    loss: object = F.cross_entropy


@dataclass
class Passed:
    """What went through one block."""

    x: torch.Tensor
    y: torch.Tensor
    gradient_x: torch.Tensor = field(default=None)
    gradient_y: torch.Tensor = field(default=None)


def main(value):
    return value[0] if isinstance(value, tuple) else value


def passed_through(pieces_of):
    """Each block run alone: forward in turn, then back from the gradient at its output."""
    pieces = pieces_of()
    inputs, targets = pieces.batch
    x = pieces.stem(inputs)
    passes = []
    for block in pieces.blocks:
        leaf = x.detach().clone().requires_grad_()
        y = main(block(leaf.clone()))
        passes.append((leaf, y))
        x = y
    leaf = x.detach().clone().requires_grad_()
    value = pieces.loss(pieces.head(leaf), targets)
    (gradient,) = torch.autograd.grad(value, leaf)
    result = []
    for x, y in reversed(passes):
        (gradient_x,) = torch.autograd.grad(y, x, gradient)
        result.append(Passed(x.detach(), y.detach(), gradient_x, gradient))
        gradient = gradient_x
    return result[::-1], value.item()


def residual_convolutions():
    torch.manual_seed(0)
    model = like.TorchvisionLike().double()
    twin = copy.deepcopy(model)
    images = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    return Pieces(
        model,
        (images, torch.arange(6) % 5),
        ["layer1.0", "layer1.1", "layer2.0", "layer2.1"],
        lambda x: F.relu(twin.conv1(x)),
        [*twin.layer1, *twin.layer2],
        lambda x: twin.fc(x.mean((2, 3))),
    )


def perceptron():
    torch.manual_seed(1)
    sizes = (7, 9, 9, 9, 4)
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU() if b != 4 else nn.Identity()]
    model = nn.Sequential(*layers).double()
    twin = copy.deepcopy(model)
    return Pieces(
        model,
        (torch.randn(12, 7, dtype=torch.float64), torch.arange(12) % 4),
        ["0", "2", "4", "6"],
        lambda x: x,
        [twin[i : i + 2] for i in range(0, 8, 2)],
        lambda x: x,
    )


def transformer():
    torch.manual_seed(2)
    model = like.HuggingFaceLike().double()
    twin = copy.deepcopy(model)
    return Pieces(
        model,
        ({"input_ids": torch.randint(11, (5, 6))}, torch.arange(5) % 4),
        ["layer.0", "layer.1", "layer.2"],
        lambda inputs: twin.embeddings(inputs["input_ids"]),
        list(twin.layer),
        lambda x: twin.head(x.mean(1)),
        lambda output, targets: F.cross_entropy(getattr(output, "logits", output), targets),
    )


CASES = {f.__name__: f for f in (residual_convolutions, perceptron, transformer)}
