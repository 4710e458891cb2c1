"""The measurements as the rules read them; torch is loaded only to make evidence of a batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from bathyscope.core.records import Block, Cause, Measurement

if TYPE_CHECKING:
    from bathyscope.core.batch import Batch


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers and words by name; what was not measured, or is not a number, is None."""

    values: Mapping[str, object]

    def number(self, name: str) -> float | None:
        """A number, non-finite ones included."""
        value = self.values.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    def word(self, name: str) -> str | None:
        """A name."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def holds(self, name: str) -> bool:
        """Whether it was measured and is so."""
        return bool(self.values.get(name))


@dataclass(frozen=True)
class Evidence:
    """What was measured, by name of the measurement and of its column."""

    blocks: tuple[Block, ...]
    measurements: Mapping[str, Measurement]
    epsilon: float
    """Rounding of the dtype in which the network computes."""
    samples_equal: bool = False
    """Whether the batch holds one sample several times."""
    budget: int | None = None
    """Steps of training that the user plans."""
    rate_growth: float = 1.0
    """The largest learning rate of the schedule over that of the measured step."""

    def about(self, measurement: str) -> Facts:
        """The numbers of a measurement that concern the network as a whole."""
        result = self.measurements.get(measurement)
        return Facts({} if result is None else result.settings)

    def column(self, measurement: str, column: str) -> list[float | None]:
        """One number per block; None where there is none, or where it was not measured at all."""
        result = self.measurements.get(measurement)
        if result is None or column not in result.columns:
            return [None] * len(self.blocks)
        return [float(v) if isinstance(v, (int, float)) else None for v in result[column]]

    def description(self, measurement: str, column: str) -> list[str | None]:
        """As `column`, for columns of names."""
        result = self.measurements.get(measurement)
        if result is None or column not in result.columns:
            return [None] * len(self.blocks)
        return [v if isinstance(v, str) else None for v in result[column]]

    def values(self, name: str) -> Sequence[object]:
        """What is known by a name: a column with the rows of stem and head, a fact, or an attribute."""
        measurement, _, part = name.partition(".")
        if not part:
            return (getattr(self, name),)
        result = self.everywhere.measurements.get(measurement)
        if result is None:
            return ()
        return result[part] if part in result.columns else (result.settings.get(part),)

    @cached_property
    def everywhere(self) -> "Evidence":
        """The same with the rows of stem and head, where they were measured."""
        from bathyscope.core.blocks import Blocks
        from bathyscope.measure.around import AROUND, with_around

        beside = self.measurements.get(AROUND)
        if beside is None:
            return self
        rows = Blocks(self.blocks, "given", around=beside.blocks)
        return replace(
            self, blocks=tuple(rows.rows), measurements=with_around(self.measurements, rows)
        )

    @property
    def last_block(self) -> tuple[str, ...]:
        """The label of the last block, where there is one."""
        return self.labels(range(len(self.blocks))[-1:])

    def labels(self, indices: Sequence[int]) -> tuple[str, ...]:
        """The names of blocks, by their indices."""
        return tuple(self.blocks[i].label for i in indices)


def evidence_of(
    blocks: Sequence[Block],
    measured: Mapping[str, Measurement],
    batch: "Batch",
    *,
    budget: int | None = None,
    rate_growth: float = 1.0,
) -> Evidence:
    """The measurements as the rules read them."""
    import torch

    from bathyscope.core.nested import tensors_in

    floating = (t.dtype for t in tensors_in(batch[0]) if t.is_floating_point())
    dtype = next(floating, torch.float32)
    return Evidence(
        tuple(blocks),
        measured,
        torch.finfo(dtype).eps,
        samples_equal=all_samples_equal(batch),
        budget=budget,
        rate_growth=rate_growth,
    )


def all_samples_equal(batch: "Batch") -> bool:
    """Whether the inputs are one sample, repeated along the first axis of every tensor.

    Examples:
        >>> import torch
        >>> all_samples_equal((torch.ones(3, 2), None)), all_samples_equal((torch.ones(1, 2), None))
        (True, False)
    """
    from bathyscope.core.fetch import near
    from bathyscope.core.nested import tensors_in

    tensors = [near(t) for t in tensors_in(batch[0]) if t.ndim > 0]
    return any(len(t) > 1 for t in tensors) and all(bool((t == t[:1]).all()) for t in tensors)


_SQUASHING = ("sigmoid", "tanh", "hardsigmoid", "hardtanh", "softmax")


def cause_of_squashing(evidence: Evidence, blocks: Sequence[int]) -> Cause | None:
    """The activation, where most of the blocks end in a function whose slope is below one."""
    names = evidence.description("activations", "nonlinearity")
    squashed = sum(names[i] in _SQUASHING for i in blocks)
    return "activation" if blocks and 2 * squashed > len(blocks) else None


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that are there and finite."""
    return [v for v in values if v is not None and math.isfinite(v)]


def typical(values: Sequence[float | None]) -> float | None:
    """The median of the values that are there and finite."""
    present = finite(values)
    return median(present) if present else None


def decades(ratio: float) -> float:
    """How many powers of ten a positive ratio lies from one; infinite ones count as 40."""
    if ratio <= 0 or math.isinf(ratio):
        return 40.0
    return abs(math.log10(ratio))
