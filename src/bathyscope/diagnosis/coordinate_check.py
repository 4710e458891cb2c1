"""A coordinate check: what grows with width or depth after a few steps, and whether a rate transfers.

Activations and what a few steps change in them are followed over networks of several sizes, at the same
learning rate: where their root mean square keeps its size, a learning rate found on a small network is
right for a large one (Yang and Hu, maximal update parametrization; Dey et al., CompleteP, for depth).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.arguments import check_count
from bathyscope.core.batch import Batch, LossFn, check_batches, check_parameters, run_forward
from bathyscope.core.blocks import blocks_of
from bathyscope.core.devices import with_double
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors, main_tensor, predictions
from bathyscope.core.progress import report_progress
from bathyscope.core.shown import Figured, Shown, axes_or_new
from bathyscope.core.stepping import train_over

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Axis = Literal["width", "depth"]
Trained = nn.Module | tuple[nn.Module, torch.optim.Optimizer]

STABLE = 0.25
"""Exponent of a size within which a quantity keeps its size: standard parametrization has 0.5 to 1 where
it grows, the neural tangent one −0.5 where it fades."""

LEARNING_RATE = 1e-3
_FLOOR = 1e-30


@dataclass(frozen=True, slots=True)
class CoordinateRow:
    """Root mean squares of one network: at the end of its body and at its output, and what steps change."""

    axis: Axis
    size: int
    seed: int
    hidden: float
    output: float
    hidden_change: float
    output_change: float


@dataclass(frozen=True, slots=True, repr=False)
class CoordinateCheck(Shown, Figured):
    """What a coordinate check found.

    Attributes:
        rows: one per network and seed.
        exponents: by axis and quantity, the power of the size with which it grows.
        steps: that each network took.
    """

    rows: tuple[CoordinateRow, ...]
    exponents: dict[Axis, dict[str, float]]
    steps: int

    def trend(self, axis: Axis) -> Literal["grows", "fades", "stable"]:
        """What steps change in the network as it becomes larger: hidden layers and output together."""
        powers = self.exponents[axis]
        if max(powers["hidden_change"], powers["output_change"]) > STABLE:
            return "grows"
        return "fades" if powers["hidden_change"] < -STABLE else "stable"

    def transfers(self, axis: Axis) -> bool:
        """Whether a learning rate found at one size is right for another."""
        return self.trend(axis) == "stable"

    def parametrization(self, axis: Axis) -> str:
        """Which parametrization behaves so."""
        names = {
            ("width", "grows"): "standard",
            ("width", "fades"): "neural tangent",
            ("width", "stable"): "maximal update",
            ("depth", "grows"): "unscaled branches",
            ("depth", "fades"): "branches scaled too far down",
            ("depth", "stable"): "depth-scaled branches",
        }
        return names[axis, self.trend(axis)]

    @property
    def finding(self) -> str:
        """What was found, in a sentence per axis."""
        return " ".join(self._finding(axis) for axis in self.exponents)

    @property
    def remedy(self) -> str:
        """What to change so that a learning rate transfers; empty where it does."""
        result = []
        for axis in self.exponents:
            match axis, self.trend(axis):
                case "width", "grows":
                    result.append(
                        "Maximal update: Adam's rate of hidden weights ∝ 1/width, the output layer "
                        "times 1/width (or started at zero), attention scores over the head's width; "
                        "or lower the rate by the exponent when you widen."
                    )
                case "width", "fades":
                    result.append(
                        "Hidden layers hardly learn when wide: remove the extra 1/√width factors, or "
                        "raise the rate of hidden weights with the width."
                    )
                case "depth", "grows":
                    result.append(
                        "Divide each residual branch by the number of blocks (CompleteP), or by its "
                        "square root with Adam's rate ∝ 1/√depth."
                    )
                case "depth", "fades":
                    result.append(
                        "Branches are scaled down more than by the number of blocks, or the network has "
                        "no shortcuts: scale by 1/depth, and start from weights that keep the signal."
                    )
        return " ".join(result)

    def to_frame(self) -> "pd.DataFrame":
        """One row per network and seed."""
        import pandas as pd

        return pd.DataFrame(
            [{n: getattr(r, n) for n in CoordinateRow.__slots__} for r in self.rows]
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Root mean squares over the size, both logarithmic; flat lines transfer."""
        ax = axes_or_new(ax)
        for axis in self.exponents:
            for name in ("hidden_change", "output_change"):
                sizes, means = zip(*_means(self.rows, axis, name), strict=True)
                label = f"{name.replace('_', ' ')} over {axis} ({self.exponents[axis][name]:+.2f})"
                ax.plot(sizes, means, marker="o", label=label)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel(" or ".join(self.exponents))
        ax.set_ylabel(f"root mean square after {self.steps} steps")
        ax.legend()
        return ax

    def _finding(self, axis: Axis) -> str:
        powers = self.exponents[axis]
        sizes = sorted({r.size for r in self.rows if r.axis == axis})
        moves = (
            f"what {self.steps} steps change goes with {axis}^{powers['hidden_change']:.2f} in the hidden "
            f"layers and {axis}^{powers['output_change']:.2f} at the output ({sizes[0]} to {sizes[-1]})"
        )
        ends = "will transfer" if self.transfers(axis) else "will not transfer"
        return f"{moves.capitalize()}: {self.parametrization(axis)}; a learning rate {ends} over {axis}."

    def _headline(self) -> str:
        return self.finding

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "remedy", self.remedy
        for axis, powers in self.exponents.items():
            yield f"exponents of {axis}", ", ".join(f"{n} {v:+.2f}" for n, v in powers.items())


def coordinate_check(
    factory: Callable[..., Trained],
    batches: Iterable[object],
    *,
    widths: Sequence[int] = (),
    depths: Sequence[int] = (),
    loss: LossFn = F.cross_entropy,
    steps: int = 4,
    seeds: int = 2,
) -> CoordinateCheck:
    """Say which quantity grows with width or depth, and whether a learning rate transfers.

    Args:
        factory: called with `width=` or `depth=`; returns a model, or a model and its optimizer, as the
            parametrization may need a rate per layer. A model alone is trained by Adam at 0.001.
        batches: pairs of inputs and targets, one per step; used again where they are fewer.
        widths: to build, at least two of them or of the depths.
        depths: to build.
        loss: a scalar from output and targets.
        steps: of training at each size.
        seeds: starts of each size.

    Raises:
        UsageError: fewer than two sizes, or the factory does not return a model that fits the batches.

    Examples:
        >>> def mlp(width):
        ...     return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        ...                          nn.Linear(width, 4))
        >>> batch = torch.randn(32, 8), torch.randint(4, (32,))
        >>> coordinate_check(mlp, [batch], widths=(64, 256, 1024)).parametrization("width")
        'standard'
    """
    steps, seeds = check_count("steps", steps, minimum=1), check_count("seeds", seeds, minimum=1)
    asked: dict[Axis, list[int]] = {}
    axes: tuple[tuple[Axis, Sequence[int]], ...] = (("width", widths), ("depth", depths))
    for axis, sizes in axes:
        known = sorted({check_count(f"{axis}s", size, minimum=1) for size in sizes})
        if len(known) == 1:
            raise UsageError(f"One {axis} shows no trend; give at least two {axis}s.")
        if known:
            asked[axis] = known
    if not asked:
        raise UsageError("No sizes were given; give widths=, depths= or both.")
    rows: list[CoordinateRow] = []
    total = seeds * sum(map(len, asked.values()))
    with preserve_random_state():
        given: list[Batch] | None = None
        for axis, sizes in asked.items():
            for size in sizes:
                for seed in range(seeds):
                    report_progress("network", len(rows) + 1, total)
                    seed_generators(seed)
                    model, optimizer = _built(factory, axis, size)
                    given = given or check_batches(model, batches, most=steps)
                    rows.append(_measure(model, optimizer, given, axis, size, seed, loss, steps))
    exponents = {axis: _exponents(rows, axis) for axis in asked}
    return CoordinateCheck(tuple(rows), exponents, steps)


def _built(
    factory: Callable[..., Trained], axis: Axis, size: int
) -> tuple[nn.Module, torch.optim.Optimizer]:
    try:
        made = factory(**{axis: size})
    except Exception as error:  # a user's own code may raise anything
        raise UsageError(
            f"The factory cannot build a network of {axis} {size}: {in_a_line(error)}; it is called as "
            f"factory({axis}={size})."
        ) from error
    model, optimizer = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"The factory returns a model, or a model and its optimizer, but a {type(made).__name__} came."
        )
    check_parameters(model)
    return model, optimizer or torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)


def _measure(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    axis: Axis,
    size: int,
    seed: int,
    loss: LossFn,
    steps: int,
) -> CoordinateRow:
    """Train one network and compare its activations with those at its start."""
    first = batches[0]
    body = blocks_of(model, first[0])[-1].name
    hidden, output = _activations(model, body, first)
    train_over(model, optimizer, islice(cycle(batches), steps), loss=loss)
    later, after = _activations(model, body, first)
    return CoordinateRow(
        axis, size, seed, _rms(hidden), _rms(output), _rms(later - hidden), _rms(after - output)
    )


@torch.no_grad()
def _activations(model: nn.Module, name: str, batch: Batch) -> tuple[Tensor, Tensor]:
    """The output of the last block of the body, and of the model."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, args: object, output: object) -> None:
        tensor = main_tensor(output)
        if tensor is not None:
            seen.append(tensor.detach().clone())

    with Hooks() as hooks:
        hooks.after_forward(model.get_submodule(name), keep)
        output = predictions(run_forward(model, copy_tensors(batch[0])))
    if output is None or not seen:
        raise UsageError(
            "The network's output holds no tensor of numbers; there is nothing to follow."
        )
    return seen[-1], output.detach().clone()


def _rms(values: Tensor) -> float:
    return max(_FLOOR, math.sqrt(float(with_double(values).double().square().mean())))


def _means(rows: Iterable[CoordinateRow], axis: Axis, name: str) -> list[tuple[int, float]]:
    """Geometric mean over the seeds, by size."""
    mine = [r for r in rows if r.axis == axis]
    return [
        (size, math.exp(fmean(math.log(getattr(r, name)) for r in mine if r.size == size)))
        for size in sorted({r.size for r in mine})
    ]


def _exponents(rows: Sequence[CoordinateRow], axis: Axis) -> dict[str, float]:
    """Slopes of the logarithm of each quantity over that of the size, by least squares."""
    result = {}
    for name in ("hidden", "output", "hidden_change", "output_change"):
        points = [(math.log(size), math.log(mean)) for size, mean in _means(rows, axis, name)]
        x, y = fmean(p[0] for p in points), fmean(p[1] for p in points)
        spread = sum((a - x) ** 2 for a, _ in points)
        result[name] = sum((a - x) * (b - y) for a, b in points) / spread
    return result
