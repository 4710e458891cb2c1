"""Tasks on generated or tabular data: shapes, graphs, tables and a contextual bandit."""

from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_diabetes, make_friedman1
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from tools.real_trainings.networks.dense import DenseNet
from tools.real_trainings.networks.graph import MessagePassing
from tools.real_trainings.networks.images import ConvNet, ImageToImage, UNet, VisionTransformer
from tools.real_trainings.tasks.task import (
    Task,
    Tensors,
    accuracy,
    class_entropy,
    mean_square,
    split,
)

NUM_HELD_OUT = 256
SIDE = 16
NUM_SHAPES = 4
NUM_COMMUNITIES = 3
NUM_ARMS = 6


@cache
def _shapes() -> tuple[Tensor, Tensor, Tensor]:
    """Noisy images of squares, discs, diamonds and crosses; which are there; the class of each pixel."""
    generator = Generator().manual_seed(19)
    count = 3000

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, 1, generator=generator)

    rows = torch.arange(SIDE).view(1, SIDE, 1).float()
    columns = torch.arange(SIDE).view(1, 1, SIDE).float()
    images = 0.5 * torch.randn(count, SIDE, SIDE, generator=generator)
    pixels = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    for shape in range(NUM_SHAPES):
        is_there = uniform(0, 1) < 0.4
        dy, dx = (rows - uniform(3, SIDE - 4)).abs(), (columns - uniform(3, SIDE - 4)).abs()
        radius = uniform(2, 4)
        inside = [
            torch.maximum(dx, dy) < radius,
            dx.square() + dy.square() < radius.square(),
            dx + dy < radius,
            (torch.minimum(dx, dy) < 1) & (torch.maximum(dx, dy) < radius + 1),
        ][shape]
        mask = inside & is_there
        images = torch.where(mask, uniform(0.8, 1.8) + 0.2 * images, images)
        pixels = torch.where(mask, shape + 1, pixels)
    present = torch.stack([(pixels == s + 1).any(2).any(1) for s in range(NUM_SHAPES)], 1)
    return images.unsqueeze(1), present.float(), pixels


def _bernoulli_entropy(held_out: Tensors, train: Tensors, _: int) -> float:
    frequencies = train[1].mean(0).expand_as(held_out[1])
    return float(F.binary_cross_entropy(frequencies, held_out[1]))


MULTI_LABEL = Task(
    name="multilabel-shapes",
    kind="multi-label classification",
    loss_name="binary cross-entropy",
    baseline="binary cross-entropy of each label's training frequency",
    families={
        "conv": lambda c: ConvNet(1, NUM_SHAPES, **c),
        "vit": lambda c: VisionTransformer(1, NUM_SHAPES, side=SIDE, patch=4, **c),
    },
    data=lambda: split(_shapes()[:2], NUM_HELD_OUT),
    loss=lambda model, b: F.binary_cross_entropy_with_logits(model(b[0]), b[1]),
    constant_loss=_bernoulli_entropy,
    metric=lambda model, b: float(((model(b[0]) > 0) == b[1].bool()).double().mean()),
    metric_name="accuracy per label",
    batch_sizes=(8, 16, 32),
    longest=1200,
)


def _pixel_outputs(model: nn.Module, batch: Tensors) -> Tensor:
    return model(batch[0]).movedim(1, -1)


SEGMENTATION = Task(
    name="segment-shapes",
    kind="segmentation",
    loss_name="cross-entropy",
    baseline="cross-entropy of the pixel classes' training frequencies",
    families={
        "unet": lambda c: UNet(1, NUM_SHAPES + 1, **c),
        "conv": lambda c: ImageToImage(1, NUM_SHAPES + 1, **c),
    },
    data=lambda: split(_shapes()[::2], 128),
    loss=lambda model, b: F.cross_entropy(model(b[0]), b[1]),
    constant_loss=lambda held_out, train, _: class_entropy(held_out[1], train[1], NUM_SHAPES + 1),
    metric=lambda model, b: accuracy(_pixel_outputs(model, b), b[1]),
    metric_name="accuracy per pixel",
    batch_sizes=(8, 16),
    longest=1000,
)


@cache
def _graphs() -> tuple[Tensors, Tensors]:
    """Graphs of three communities; a few nodes show theirs, the others have to be inferred."""
    generator = Generator().manual_seed(23)
    count, nodes = 2000, 24
    labels = torch.randint(NUM_COMMUNITIES, (count, nodes), generator=generator)
    is_same = labels.unsqueeze(1) == labels.unsqueeze(2)
    chance = torch.where(is_same, 0.35, 0.03)
    upper = (torch.rand(count, nodes, nodes, generator=generator) < chance).float().triu(1)
    adjacency = upper + upper.transpose(1, 2) + torch.eye(nodes)
    adjacency = adjacency / adjacency.sum(2, keepdim=True)
    is_shown = torch.rand(count, nodes, 1, generator=generator) < 0.2
    features = F.one_hot(labels, NUM_COMMUNITIES).float() * is_shown
    features = features + 0.2 * torch.randn(features.shape, generator=generator)
    return split((features, adjacency, labels), NUM_HELD_OUT)


GRAPH = Task(
    name="graph-communities",
    kind="graph node classification",
    loss_name="cross-entropy",
    baseline="cross-entropy of the communities' training frequencies",
    families={"graph": lambda c: MessagePassing(NUM_COMMUNITIES, NUM_COMMUNITIES, **c)},
    data=_graphs,
    loss=lambda model, b: F.cross_entropy(model(b[0], b[1]).flatten(0, 1), b[2].flatten()),
    constant_loss=lambda held_out, train, _: class_entropy(held_out[2], train[2], NUM_COMMUNITIES),
    metric=lambda model, b: accuracy(model(b[0], b[1]), b[2]),
    metric_name="accuracy",
    batch_sizes=(8, 16, 32),
    sgd_rate=0.2,
)


def _table(inputs: np.ndarray, target: np.ndarray, num_held_out: int) -> tuple[Tensors, Tensors]:
    """Standardized columns and target, rows shuffled."""
    order = np.random.default_rng(29).permutation(len(inputs))
    x = (inputs - inputs.mean(0)) / inputs.std(0)
    y = ((target - target.mean()) / target.std())[:, None]
    tensors = tuple(torch.tensor(a[order], dtype=torch.float32) for a in (x, y))
    return split(tensors, num_held_out)


@cache
def _friedman() -> tuple[Tensors, Tensors]:
    inputs, target = make_friedman1(2256, 10, noise=1.0, random_state=0)
    return _table(inputs, target, NUM_HELD_OUT)


@cache
def _diabetes() -> tuple[Tensors, Tensors]:
    inputs, target = load_diabetes(return_X_y=True)
    return _table(inputs, target, 100)


def _regression(name: str, **options: Any) -> Task:
    return Task(
        name=name,
        kind="regression on a table",
        loss_name="squared error",
        baseline="squared error of the mean training target",
        families={"dense": lambda c: DenseNet(10, 1, **c)},
        loss=lambda model, b: F.mse_loss(model(b[0]), b[1]),
        constant_loss=lambda held_out, train, _: mean_square(held_out[1], train[1]),
        **options,
    )


FRIEDMAN = _regression("table-friedman", data=_friedman)
DIABETES = _regression("table-diabetes", data=_diabetes)


@cache
def _contexts() -> tuple[Tensors, Tensors]:
    """Contexts and the mean reward of each arm in them, from a fixed random network."""
    generator = Generator().manual_seed(31)
    contexts = torch.randn(6000, 12, generator=generator)
    first = torch.randn(12, 16, generator=generator) / 12**0.5
    second = torch.randn(16, NUM_ARMS, generator=generator)
    rewards = torch.sigmoid(torch.tanh(2 * contexts @ first) @ second)
    return split((contexts, rewards), NUM_HELD_OUT)


def _policy_gradient(model: nn.Module, batch: Tensors) -> Tensor:
    """The value is the negative mean reward; the gradient is that of REINFORCE with a baseline.

    The surrogate of REINFORCE itself has no value worth reading, so its value is replaced by the
    one that a user would log.
    """
    contexts, means, uniform, noise = batch
    log_policy = F.log_softmax(model(contexts), dim=1)
    policy = log_policy.detach().exp()
    # a non-finite policy compares as false everywhere and so chooses arm 0
    arm = (policy.cumsum(1) < uniform).sum(1, keepdim=True).clamp(max=NUM_ARMS - 1)
    reward = means.gather(1, arm) + 0.3 * noise
    advantage = reward - reward.mean()
    entropy = -(log_policy.exp() * log_policy).sum(1).mean()
    surrogate = -(advantage * log_policy.gather(1, arm)).mean() - 0.01 * entropy
    return surrogate - surrogate.detach() - reward.mean()


def _expected_reward(model: nn.Module, batch: Tensors) -> float:
    return float((model(batch[0]).softmax(1) * batch[1]).sum(1).mean())


def _with_luck(batch: Tensors, generator: Generator) -> Tensors:
    size = (len(batch[0]), 1)
    return (*batch, torch.rand(size, generator=generator), torch.randn(size, generator=generator))


BANDIT = Task(
    name="bandit",
    kind="policy gradient",
    loss_name="negative mean reward",
    baseline="negative mean reward of the arm that is best on average",
    families={"dense": lambda c: DenseNet(12, NUM_ARMS, **c)},
    data=_contexts,
    loss=_policy_gradient,
    constant_loss=lambda held_out, train, _: (
        -float(held_out[1][:, train[1].mean(0).argmax()].mean())
    ),
    metric=_expected_reward,
    metric_name="expected reward",
    add_noise=_with_luck,
    batch_sizes=(32, 64, 128),
    sgd_rate=1.0,
)
