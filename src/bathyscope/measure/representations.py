"""How much of the input's variety each block's representation still holds."""

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of
from bathyscope.core.probe import Observer, probe
from bathyscope.core.records import Block, Measurement
from bathyscope.linalg import Conditioning, conditioning_of_many, hosvd_of, rescale
from bathyscope.measure.rows import Axes, Later, Rows, Seen, axes_of, find_blocks

LARGEST_SIDE = 1024
"""Gram matrices wider than this are not decomposed unless asked: their cost grows as the cube."""


_FEW_UNITS = 4
"""Of fewer, after their mean is taken away, too few directions are left to show a collapse."""

_SQUARE = 0.8
"""Of matrices whose sides are nearer than this even random ones have tiny singular values."""

_NEAR = 1e-2
"""Samples this near to one direction are compared again after centring."""


def representations(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Iterable[str] | Blocks | None = None,
    tolerance: float | None = None,
    largest_side: int = LARGEST_SIDE,
) -> Measurement:
    """Condition number, numerical and stable rank of every block's output, in every mode.

    H^l is the output of block l for the whole batch, unfolded along each of its axes
    (singularity, definition 2 and equation 11; HOSVD for convolutions).

    Columns, one value per block, for each mode among samples, features or channels, height,
    width, tokens:
        condition_MODE: σ_max/σ_min, infinite where a value lies at or below the tolerance.
        effective_condition_MODE: the same over the values above the tolerance.
        rank_MODE and full_rank_MODE: how many lie above it, and how many could.
        stable_rank_MODE: ‖H‖²_F/σ_max².
        tolerance_MODE: relative to σ_max.
    And mean_cosine: the mean cosine between two samples; 1 where all have collapsed.
    And collapse: 1 − that cosine, after taking from each sample the mean of its own entries where it
        is small; None for fewer than four units, which leave no room for an angle.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.
        tolerance: relative to σ_max; by default what rounding in the tensor's dtype can make.
        largest_side: modes whose Gram matrix is wider are left out, and a note says so.

    Returns:
        The measurement `representations`.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.

    Examples:
        >>> import torch.nn.functional as F
        >>> model = nn.Sequential(nn.Linear(4, 3, bias=False))
        >>> _ = nn.init.eye_(model[0].weight)
        >>> batch = torch.diag(torch.tensor([4.0, 2.0, 1.0, 1.0])), torch.zeros(4).long()
        >>> found = representations(model, batch, loss=F.cross_entropy)
        >>> found["condition_samples"], found["rank_samples"], found["full_rank_samples"]
        ((4.0,), (3,), (3,))
    """
    result = find_blocks(model, batch, blocks)
    observer = RepresentationObserver(model, result, tolerance=tolerance, largest_side=largest_side)
    probe(model, batch, loss=loss, blocks=result, observers=(observer,))
    return observer.measurement()


def representation_spectra(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Iterable[str] | Blocks | None = None,
    tolerance: float | None = None,
) -> Mapping[str, Mapping[str, Conditioning]]:
    """All singular values of every block's output, by the block's label and the mode's name.

    Examples:
        >>> import torch.nn.functional as F
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        >>> batch = torch.randn(8, 4), torch.zeros(8).long()
        >>> spectra = representation_spectra(model, batch, loss=F.cross_entropy)
        >>> spectra["0"]["features"].singular_values.shape
        torch.Size([3])
    """
    result = find_blocks(model, batch, blocks)
    observer = RepresentationObserver(model, result, tolerance=tolerance, keep=True)
    probe(model, batch, loss=loss, blocks=result, observers=(observer,))
    observer.later.flush()
    return observer.spectra


class RepresentationObserver(Observer):
    """Reduces every output to its spectra while the pass runs."""

    def __init__(
        self,
        model: nn.Module | Members,
        blocks: Blocks,
        *,
        tolerance: float | None = None,
        largest_side: int = LARGEST_SIDE,
        keep: bool = False,
    ) -> None:
        self.members = members_of(model)
        self.tolerance = tolerance
        self.largest_side = largest_side
        self.keep = keep
        self.rows = Rows(blocks, ("mean_cosine", "collapse"))
        self.spectra: dict[str, dict[str, Conditioning]] = {}
        self.later = Later(self._decompose)
        self._square: set[tuple[int, ...]] = set()

    def on_output(self, block: Block, x: Tensor) -> None:
        """Decompose the output in every mode."""
        if x.ndim == 0 or x.numel() == 0:
            return
        axes = axes_of(self.members, block, ndim=x.ndim)
        for axis in set(range(x.ndim)) - set(self._narrow(x)):
            self.rows.note(
                f"Modes wider than {self.largest_side} were not decomposed ({axes.names[axis]} at "
                f"{block.label}: {_side(x, axis)}); raise largest_side to have them."
            )
        self.later.add(block, x)

    def _narrow(self, x: Tensor) -> list[int]:
        return [i for i in range(x.ndim) if self.keep or _side(x, i) <= self.largest_side]

    def _decompose(self, seen: list[Seen]) -> None:
        """Samples compared, and spectra in every mode; small outputs of one shape at once."""
        axes = [axes_of(self.members, one.block, ndim=one.tensor.ndim) for one in seen]
        tensors = [one.tensor for one in seen]
        for one, columns in zip(seen, collapse_columns_of_many(tensors, axes), strict=True):
            self.rows.put(one.block, **columns)
        if len(seen) == 1:
            x = seen[0].tensor
            result = [dict(zip(self._narrow(x), self._modes(x), strict=True))]
        else:
            result = self._modes_of_many(tensors)
        for one, named, modes in zip(seen, axes, result, strict=True):
            for axis, spectrum in modes.items():
                mode = named.names[axis]
                full = {f"full_rank_{mode}": _side(one.tensor, axis)}
                self.rows.put(one.block, **columns_of(spectrum, mode), **full)
                if one.tensor.ndim == 2 and math.isinf(spectrum.condition_number):
                    self._note_square(one.block, one.tensor)
                if self.keep:
                    self.spectra.setdefault(one.block.label, {})[mode] = spectrum

    def _note_square(self, block: Block, x: Tensor) -> None:
        """Say where an infinite condition number may come from the shape alone, once for each shape."""
        shape = tuple(x.shape)
        if min(shape) > _SQUARE * max(shape) and shape not in self._square:
            self._square.add(shape)
            self.rows.note(
                f"{block.label} has {shape[0]} samples and {shape[1]} features: of nearly square matrices "
                "even random ones are badly conditioned, so that an infinite condition number of this shape "
                "may come from the batch; take twice as many samples."
            )

    def _modes(self, x: Tensor) -> tuple[Conditioning, ...]:
        return hosvd_of(x, modes=self._narrow(x), tolerance=self.tolerance)

    def _modes_of_many(self, tensors: list[Tensor]) -> list[dict[int, Conditioning]]:
        result: list[dict[int, Conditioning]] = [{} for _ in tensors]
        for axis in range(max(x.ndim for x in tensors)):
            asked = [i for i, x in enumerate(tensors) if axis in self._narrow(x)]
            for i in asked:  # a matrix and its transpose have the same values
                if axis == 1 and tensors[i].ndim == 2 and 0 in result[i]:
                    result[i][1] = result[i][0]
            left = [i for i in asked if axis not in result[i]]
            spectra = conditioning_of_many(
                [tensors[i] for i in left], mode=axis, tolerances=[self.tolerance] * len(left)
            )
            for i, spectrum in zip(left, spectra, strict=True):
                result[i][axis] = spectrum
        return result

    def measurement(self) -> Measurement:
        """The record, once the pass is over."""
        self.later.flush()
        return self.rows.measurement(
            "representations",
            tolerance=self.tolerance if self.tolerance is not None else "rounding",
            largest_side=self.largest_side,
        )


def _side(x: Tensor, axis: int) -> int:
    return min(x.shape[axis], x.numel() // x.shape[axis])


def collapse_columns_of_many(
    tensors: Sequence[Tensor], axes: Sequence[Axes]
) -> list[dict[str, float]]:
    """`collapse_columns` of many outputs; those of one shape are compared at once.

    Examples:
        >>> axes = Axes(("samples", "features"), 0, 1)
        >>> reported = collapse_columns_of_many([torch.eye(2), torch.ones(2, 2)], [axes, axes])
        >>> [round(columns["mean_cosine"], 12) for columns in reported]
        [0.0, 1.0]
    """
    result: list[dict[str, float]] = [{} for _ in tensors]
    alike: dict[object, list[int]] = {}
    for i, (x, named) in enumerate(zip(tensors, axes, strict=True)):
        alike.setdefault((x.shape, x.dtype, x.device, named), []).append(i)
    for locations in alike.values():
        named = axes[locations[0]]
        cosines = centered = [math.nan] * len(locations)
        if len(locations) > 1:
            stack = torch.stack([tensors[i] for i in locations])
            rows = stack.movedim(named.samples + 1, 1).flatten(2).double()
            cosines = _mean_cosines(rows)
            near = [j for j, cosine in enumerate(cosines) if 1 - cosine < _NEAR]
            if near:
                some = rows[near]
                again = _mean_cosines(some - some.mean(2, keepdim=True))
                known = dict(zip(near, again, strict=True))
                centered = [known.get(j, math.nan) for j in range(len(locations))]
        for i, *given in zip(locations, cosines, centered, strict=True):
            cosine, about_mean = (None if math.isnan(number) else number for number in given)
            result[i] = collapse_columns(tensors[i], named, cosine=cosine, centered=about_mean)
    return result


def _mean_cosines(stack: Float[Tensor, " k samples features"]) -> list[float]:
    """`mean_cosine` of each; not a number where it is to be looked at alone."""
    norms = torch.linalg.vector_norm(stack, dim=2)
    low, high = norms.aminmax(dim=1)
    total = torch.bmm((1 / norms).unsqueeze(1), stack).square().sum(dim=(1, 2))
    number = stack.shape[1]
    usual = (low > 1e-100) & (high < 1e100) & (number > 1)
    return torch.where(usual, (total - number) / max(1, number * (number - 1)), math.nan).tolist()


def collapse_columns(
    x: Tensor, axes: Axes, *, cosine: float | None = None, centered: float | None = None
) -> dict[str, float]:
    """The mean cosine between samples, and their distance from collapse where there are several units.

    The cosine can be given where it is known, and that after centring.

    Examples:
        >>> collapse_columns(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), Axes(("samples", "features"), 0, 1))
        {'mean_cosine': 0.0}
    """
    if cosine is None:
        cosine = mean_cosine(_by_sample(x, axes))
    if x.ndim < 2 or x.shape[axes.units] < _FEW_UNITS:
        return {"mean_cosine": cosine}
    if (
        not 1 - cosine < _NEAR
    ):  # no second look is needed, for which the samples would be put in rows
        return {"mean_cosine": cosine, "collapse": 1 - cosine}
    distance = distance_from_collapse(_by_sample(x, axes), cosine, centered=centered)
    return {"mean_cosine": cosine, "collapse": distance}


def _by_sample(x: Tensor, axes: Axes) -> Float[Tensor, " samples features"]:
    return x.movedim(axes.samples, 0).reshape(x.shape[axes.samples], -1)


def distance_from_collapse(
    rows: Float[Tensor, " samples features"], cosine: float, *, centered: float | None = None
) -> float:
    """1 − the mean cosine between samples, the offset that all entries of a sample share left out.

    Positive values, such as the outputs of a sigmoid, have cosines near 1 by their common sign alone.

    Examples:
        >>> rows = 100 + torch.eye(4)
        >>> round(distance_from_collapse(rows, mean_cosine(rows)), 3)
        1.333
    """
    if not 1 - cosine < _NEAR:
        return 1 - cosine
    if centered is None:
        centered = mean_cosine(rows.double() - rows.double().mean(1, keepdim=True))
    return max(1 - cosine, 1 - centered)


def columns_of(result: Conditioning, mode: str) -> dict[str, float | int | None]:
    """A spectrum as the columns of one mode."""
    return {
        f"condition_{mode}": result.condition_number,
        f"effective_condition_{mode}": result.effective_condition_number,
        f"rank_{mode}": result.rank,
        f"stable_rank_{mode}": result.stable_rank,
        f"tolerance_{mode}": result.tolerance,
    }


def mean_cosine(rows: Float[Tensor, " samples features"]) -> float:
    """Mean over pairs i ≠ j of ⟨x_i, x_j⟩ / (‖x_i‖ ‖x_j‖), without the zero rows.

    With u_i = x_i/‖x_i‖ this is (‖Σ u_i‖² − N) / (N(N − 1)): one product, no Gram matrix.

    Examples:
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])) == 1 / 3
        True
    """
    rows, unit = rescale(rows)
    if not 0 < unit < math.inf:
        return math.nan
    norms = torch.linalg.vector_norm(rows, dim=1)
    number = int((norms > 0).sum())
    if number < 2:
        return math.nan
    total = torch.where(norms > 0, 1 / norms, 0.0) @ rows
    return (total.double().square().sum().item() - number) / (number * (number - 1))
