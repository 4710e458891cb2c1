"""The quantities by which the four papers explain that a network trains, measured on any network."""

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import measure
from bathyscope.claims.reading import numbers_of
from bathyscope.core.blocks import blocks_of
from bathyscope.core.hooks import Hooks
from bathyscope.curvature import hessian
from bathyscope.training import Callback, Examples, LoopView

_CURVATURE_SAMPLES = 32


class StartAndEnd(Callback, ABC):
    """Calls `measure` before the first step and after the last."""

    def on_start(self, loop: LoopView) -> None:
        """Measure a network that is new."""
        if loop.step == 0:
            self.measure(loop, "start")

    def on_end(self, loop: LoopView, ending: str) -> None:
        """Measure it as the run leaves it."""
        if not ending.startswith("stopped"):
            self.measure(loop, "end")

    @abstractmethod
    def measure(self, loop: LoopView, moment: str) -> None:
        """Log what is to be known at this moment, `start` or `end`."""


class CauseWatcher(StartAndEnd):
    """Measures `causes` before the first step and after the last, into records of the kind `cause`.

    Args:
        train: the training set, all of which counts for the accuracy.
        probe_size: how many of its first samples the causes are measured on.
        curvature: also the shape of the Hessian's spectrum, which takes most of the time.
    """

    def __init__(self, train: Examples, *, probe_size: int, curvature: bool) -> None:
        self.train = train
        self.probe = (train[0][:probe_size], train[1][:probe_size])
        self.curvature = curvature

    def measure(self, loop: LoopView, moment: str) -> None:
        """Log the causes, as a record of the kind `cause`."""
        row = {"accuracy": accuracy(loop.model, self.train)} | causes(loop.model, self.probe)
        if self.curvature and not any(math.isnan(v) for v in row.values()):
            row |= spectrum_shape(loop.model, self.probe)
        loop.log({"kind": "cause", "moment": moment, "step": loop.step} | row)


def accuracy(model: nn.Module, examples: Examples) -> float:
    """Fraction of the samples that the network, in evaluation mode, puts into their class.

    Examples:
        >>> accuracy(nn.Identity(), (torch.eye(4), torch.tensor([0, 1, 2, 2])))
        0.75
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(x).argmax(dim=1) == y).sum())
            for x, y in zip(examples[0].split(256), examples[1].split(256), strict=True)
        )
    model.train(was_training)
    return right / len(examples[1])


def causes(model: nn.Module, probe: Examples) -> dict[str, float]:
    """What each paper looks at, in one number or two, on some samples.

    `cosine`: mean cosine of pairs of samples after the last block, one where all fall together
    (singularity). `condition`: log₁₀ of the condition number of that block's outputs, features ×
    samples (singularity). `gradient_range`: log₁₀ of the largest over the smallest norm of ∂E/∂x_l
    over the blocks (norm_preservation). `unexplained`: fraction of the variance of the one-hot labels
    that no linear map of the last block's outputs explains, beside `unexplained_by_input` (nests:
    no worse than the best linear predictor).
    """
    blocks = blocks_of(model, probe[0])
    outputs = measure.representations(model, probe, loss=F.cross_entropy, blocks=blocks)
    gradients = measure.gradients(model, probe, loss=F.cross_entropy, blocks=blocks)
    norms = numbers_of(gradients, "norm_in")[1:]  # that at the images is of another size
    same = [i for i, block in enumerate(blocks) if block.in_shape == block.out_shape]
    last = same[-1] if same else len(blocks) - 1
    condition = numbers_of(outputs, "condition_samples")[last]
    with torch.no_grad():
        features = _last_features(model, probe[0])
    return {
        "cosine": numbers_of(outputs, "mean_cosine")[last],
        "condition": math.log10(condition) if condition > 0 else math.nan,
        "gradient_range": math.log10(max(norms) / min(norms)) if min(norms) > 0 else math.inf,
        "unexplained": unexplained(features, probe[1]),
        "unexplained_by_input": unexplained(probe[0].flatten(1), probe[1]),
    }


def _last_features(model: nn.Module, x: Tensor) -> Tensor:
    """What the last layer of the head reads."""
    seen: list[Tensor] = []
    head = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    with Hooks() as hooks:
        hooks.before_forward(head, lambda _m, args: seen.append(args[0]))
        model(x)
    return seen[0]


def unexplained(features: Tensor, labels: Tensor) -> float:
    """1 − R² of the least-squares fit of one-hot labels by the features and a constant.

    Examples:
        >>> unexplained(torch.eye(3), torch.arange(3)) < 1e-9
        True
        >>> round(unexplained(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])), 6)
        1.0
    """
    targets = F.one_hot(labels).double()
    centered = targets - targets.mean(dim=0)
    inputs = features.flatten(1).double()
    inputs = inputs - inputs.mean(dim=0)
    if not torch.isfinite(inputs).all():
        return math.nan
    solution = torch.linalg.lstsq(inputs, centered, driver="gelsd").solution
    left = centered - inputs @ solution
    return float(left.square().sum() / centered.square().sum())


def spectrum_shape(model: nn.Module, probe: Examples) -> dict[str, float]:
    """How the Hessian's eigenvalues lie, on a few samples   (shortcut_length).

    `sharpness`: log₁₀ of the largest |λ|. `spread`: log₁₀ of the largest over the mean |λ|, which
    the condition number of a matrix exceeds. `negative`: the fraction of Σ|λ| that negative eigenvalues
    make up, an index by weight: with this many parameters nearly all eigenvalues are about zero, and
    a count of signs would be one of rounding errors.
    """
    few = (probe[0][:_CURVATURE_SAMPLES], probe[1][:_CURVATURE_SAMPLES])
    matrix = hessian(model, few, loss=F.cross_entropy, batchnorm="batch")
    result = matrix.density(probes=4, steps=24, outlier_steps=48)
    values, fractions = result.points()
    largest, mean = float(values.abs().max()), float((fractions * values.abs()).sum())
    if mean == 0:  # a flat point
        return {"sharpness": -math.inf, "spread": math.nan, "negative": math.nan}
    return {
        "sharpness": math.log10(largest),
        "spread": math.log10(largest / mean),
        "negative": float((fractions * values.clamp(max=0).abs()).sum()) / mean,
    }
