"""Sets drawn from a known law under a seed, for tests and experiments without a download."""

from collections.abc import Callable
from math import pi

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from bathyscope.data.dataset import DataSet, image_set

Sample = tuple[Float[Tensor, " n c h w"], Int64[Tensor, " n"]]
NUM_TRAIN, NUM_TEST = 2000, 500
NUM_CLASSES = {"gaussian": 10, "spirals": 3, "teacher": 10, "gratings": 10, "hues": 100}


def gaussian(n: int, *, generator: Generator) -> Sample:
    """Ten Gaussian clouds in 8×8 pixels, linearly separable but for the overlap.

    Pixels are N(μ_c, 1) with μ_c ~ N(0, 0.35² I) for class c: two centers are about 4 deviations
    apart.
    """
    centers = 0.35 * torch.randn(NUM_CLASSES["gaussian"], 1, 8, 8, generator=generator)
    labels = torch.randint(len(centers), (n,), generator=generator)
    return centers[labels] + torch.randn(n, 1, 8, 8, generator=generator), labels


def spirals(n: int, *, generator: Generator) -> Sample:
    """Three arms of a spiral in the plane, 2×1×1: no linear map separates them."""
    arms = NUM_CLASSES["spirals"]
    labels = torch.randint(arms, (n,), generator=generator)
    radius = torch.rand(n, generator=generator)
    angle = 2 * pi * (labels / arms + 0.75 * radius)
    points = radius * torch.stack([angle.cos(), angle.sin()])
    points = points + 0.02 * torch.randn(2, n, generator=generator)
    return points.T.reshape(n, 2, 1, 1), labels


def teacher(n: int, *, generator: Generator) -> Sample:
    """Gaussian 8×8 inputs labeled by a random tanh network with one hidden layer of 32 units."""
    hidden = torch.randn(64, 32, generator=generator) / 4  # pre-activations of deviation 2
    readout = torch.randn(32, NUM_CLASSES["teacher"], generator=generator)
    inputs = torch.randn(n, 64, generator=generator)
    return inputs.reshape(n, 1, 8, 8), ((inputs @ hidden).tanh() @ readout).argmax(1)


def gratings(n: int, *, generator: Generator) -> Sample:
    """Colored stripes of 3×32×32 pixels under noise; the class is the angle of the stripes.

    Phase and color are random, so the class shows in no single pixel: a set for convolutional
    networks in the shape of CIFAR.
    """
    classes = NUM_CLASSES["gratings"]
    labels = torch.randint(classes, (n,), generator=generator)
    phase = 2 * pi * torch.rand(n, 1, 1, generator=generator)
    color = torch.rand(n, 3, 1, 1, generator=generator)
    return _stripes(pi * labels / classes, phase, color, generator=generator), labels


def hues(n: int, *, generator: Generator) -> Sample:
    """Colored stripes of 3×32×32 pixels under noise, of ten angles and ten hues: a hundred classes.

    The phase is random and so is the strength of the color: a set in the shape of CIFAR-100.
    """
    steps = 10
    labels = torch.randint(NUM_CLASSES["hues"], (n,), generator=generator)
    phase = 2 * pi * torch.rand(n, 1, 1, generator=generator)
    strength = 0.5 + 0.5 * torch.rand(n, 1, generator=generator)
    turn = 2 * pi * ((labels % steps)[:, None] / steps + torch.arange(3) / 3)
    color = strength * (0.5 + 0.5 * turn.cos())  # the three channels a third of a turn apart
    angle = pi * (labels // steps) / steps
    return _stripes(angle, phase, color[:, :, None, None], generator=generator), labels


def _stripes(
    angle: Float[Tensor, " n"],
    phase: Float[Tensor, " n 1 1"],
    color: Float[Tensor, " n 3 1 1"],
    *,
    generator: Generator,
) -> Float[Tensor, " n 3 32 32"]:
    """Waves six pixels long across an angle, with noise of deviation 0.1."""
    across = angle[:, None, None]
    row, column = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    wave = torch.sin(2 * pi / 6 * (row * across.sin() + column * across.cos()) + phase)
    noise = 0.1 * torch.randn(len(angle), 3, 32, 32, generator=generator)
    return (0.5 + 0.5 * color * wave[:, None] + noise).clamp(0, 1)


_LAWS: dict[str, Callable[..., Sample]] = {
    "gaussian": gaussian,
    "spirals": spirals,
    "teacher": teacher,
    "gratings": gratings,
    "hues": hues,
}


def synthetic(law: str, *, seed: int = 0) -> DataSet:
    """2000 training and 500 test samples of a law, one draw for both.

    Args:
        law: one of `gaussian`, `spirals`, `teacher`, `gratings`, `hues`.
        seed: of the law's own parameters and of the samples.

    Examples:
        >>> synthetic("spirals", seed=1).shape
        (2, 1, 1)
    """
    generator = torch.Generator().manual_seed(seed)
    inputs, labels = _LAWS[law](NUM_TRAIN + NUM_TEST, generator=generator)
    train = inputs[:NUM_TRAIN], labels[:NUM_TRAIN]
    test = inputs[NUM_TRAIN:], labels[NUM_TRAIN:]
    return image_set(f"synthetic:{law}", train, test, num_classes=NUM_CLASSES[law])
