"""The data of the random trainings: small sets of a known law, the same on every machine."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from bathyscope.core.batch import LossFn
from bathyscope.data.synthetic import gaussian, spirals, teacher

NUM_SAMPLES = 2000
NUM_TOKENS, LENGTH = 11, 12
"""Alphabet and length of the sequences."""

IGNORED = -100
"""Torch's target that counts in no loss."""


@dataclass(frozen=True, slots=True)
class TableTask:
    """A training set and what is asked of a network.

    Attributes:
        inputs: 1×8×8 pictures with pixels of variance one, or sequences of tokens.
        targets: labels, one per sample or one per token, or numbers of variance one.
        num_outputs: classes, tokens, or numbers to predict.
    """

    inputs: Tensor
    targets: Tensor
    num_outputs: int

    @property
    def loss(self) -> LossFn:
        """Cross-entropy for labels, the mean squared error for numbers."""
        return F.mse_loss if self.targets.is_floating_point() else F.cross_entropy

    def score(self, output: Tensor, targets: Tensor) -> float:
        """Fraction of the labels that are right, or of the variance that is explained.

        The best constant explains nothing; the targets are free of noise, so that a network can
        explain all of it. Worse than twice the variance counts as that: one wild batch must not
        hide its neighbors in a mean.
        """
        if self.targets.is_floating_point():
            return max(-1.0, 1.0 - float(F.mse_loss(output, targets)))
        asked = targets != IGNORED
        return float((output.argmax(1) == targets)[asked].float().mean())


def digits(generator: Generator) -> TableTask:
    """1,797 handwritten digits of 8×8 pixels, as scikit-learn carries them."""
    from sklearn.datasets import load_digits

    result = load_digits()
    inputs = torch.tensor(result.images, dtype=torch.float32)[:, None]
    return TableTask(_standard(inputs), torch.tensor(result.target, dtype=torch.int64), 10)


def clouds(generator: Generator) -> TableTask:
    """Ten Gaussian clouds."""
    inputs, labels = gaussian(NUM_SAMPLES, generator=generator)
    return TableTask(_standard(inputs), labels, 10)


def arms(generator: Generator) -> TableTask:
    """Three arms of a spiral in the plane, turned into 64 dimensions."""
    inputs, labels = spirals(NUM_SAMPLES, generator=generator)
    plane, _ = torch.linalg.qr(torch.randn(64, 2, generator=generator))
    points = inputs.flatten(1) / inputs.flatten(1).std()
    return TableTask((8 * points @ plane.T).reshape(-1, 1, 8, 8), labels, 3)


def taught(generator: Generator) -> TableTask:
    """Gaussian inputs labeled by a random network of one hidden layer; the five rarest classes left out."""
    inputs, labels = teacher(2 * NUM_SAMPLES, generator=generator)
    kept = torch.bincount(labels, minlength=10).argsort(descending=True)[:5]
    location = torch.full((10,), -1)
    location[kept] = torch.arange(5)
    chosen = location[labels] >= 0
    return TableTask(inputs[chosen][:NUM_SAMPLES], location[labels[chosen]][:NUM_SAMPLES], 5)


def stripes(generator: Generator) -> TableTask:
    """Stripes of random phase under noise; the class is one of four angles."""
    labels = torch.randint(4, (NUM_SAMPLES,), generator=generator)
    phase = 2 * math.pi * torch.rand(NUM_SAMPLES, 1, 1, generator=generator)
    angle = (math.pi * labels / 4)[:, None, None]
    row, column = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    wave = torch.sin(2 * math.pi / 4 * (row * angle.sin() + column * angle.cos()) + phase)
    noise = 0.3 * torch.randn(NUM_SAMPLES, 8, 8, generator=generator)
    return TableTask(_standard((wave + noise)[:, None]), labels, 4)


def line(generator: Generator) -> TableTask:
    """Four numbers, each a random linear function of the input."""
    inputs = torch.randn(NUM_SAMPLES, 64, generator=generator)
    return _regression(inputs, inputs @ torch.randn(64, 4, generator=generator))


def waves(generator: Generator) -> TableTask:
    """Three numbers, each the sine of a random projection of the input and its square."""
    inputs = torch.randn(NUM_SAMPLES, 64, generator=generator)
    directions, _ = torch.linalg.qr(torch.randn(64, 3, generator=generator))
    projected = inputs @ directions
    return _regression(inputs, projected.sin() + 0.3 * projected.square())


def counting(generator: Generator) -> TableTask:
    """Arithmetic sequences modulo 11: from the third token on, the next one is certain."""
    first = torch.randint(NUM_TOKENS, (NUM_SAMPLES, 1), generator=generator)
    step = torch.randint(1, 4, (NUM_SAMPLES, 1), generator=generator)
    tokens = (first + step * torch.arange(LENGTH + 1)) % NUM_TOKENS
    targets = tokens[:, 1:].clone()
    targets[:, :1] = IGNORED
    return TableTask(tokens[:, :-1], targets, NUM_TOKENS)


def echo(generator: Generator) -> TableTask:
    """Random words of three tokens, repeated: from the fourth token on, the next one is certain."""
    word = torch.randint(NUM_TOKENS, (NUM_SAMPLES, 3), generator=generator)
    tokens = word.repeat(1, LENGTH // 3 + 1)[:, : LENGTH + 1]
    targets = tokens[:, 1:].clone()
    targets[:, :2] = IGNORED
    return TableTask(tokens[:, :-1], targets, NUM_TOKENS)


_LAWS: dict[str, Callable[[Generator], TableTask]] = {
    "digits": digits,
    "clouds": clouds,
    "arms": arms,
    "taught": taught,
    "stripes": stripes,
    "line": line,
    "waves": waves,
    "counting": counting,
    "echo": echo,
}
PICTURES = ("digits", "clouds", "arms", "taught", "stripes")
REGRESSIONS = ("line", "waves")
SEQUENCES = ("counting", "echo")


@cache
def task(name: str) -> TableTask:
    """The task of a name, drawn once."""
    return _LAWS[name](torch.Generator().manual_seed(2026))


def _standard(inputs: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    return (inputs - inputs.mean()) / inputs.std()


def _regression(inputs: Float[Tensor, "n d"], targets: Float[Tensor, "n k"]) -> TableTask:
    targets = (targets - targets.mean(0)) / targets.std(0)
    return TableTask(inputs.reshape(-1, 1, 8, 8), targets, targets.shape[1])
