"""Stem and head: what is before and after the body, measured like its blocks and reported beside them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of
from bathyscope.core.fetch import SMALL, Readings
from bathyscope.core.probe import Observer
from bathyscope.core.records import Block, Measurement, Number
from bathyscope.measure.representations import collapse_columns
from bathyscope.measure.rows import Rows, axes_of, read_norm

AROUND = "around"
LARGEST_SIDE_AROUND = 256
"""Wider weights of stem and head are not decomposed: those of a large vocabulary would take longer than
all blocks together."""


class AroundObserver(Observer):
    """Likeness of the samples and norms of gradients at stem and head, without their spectra.

    How a gradient's norm changes across them says nothing: they are not meant to keep it.
    """

    def __init__(
        self, model: nn.Module | Members, blocks: Blocks, *, readings: Readings | None = None
    ) -> None:
        self.readings = readings or Readings()
        self.members = members_of(model)
        self.similarity = Rows(blocks, ("mean_cosine", "collapse"))
        self.norms = Rows(blocks, ("norm_in", "norm_out", "non_finite"))
        self.lost: dict[int, float] = {}

    def on_output(self, block: Block, x: Tensor) -> None:
        """How alike the samples are behind the stem; a fresh head's few outputs are always alike."""
        if block.part == "stem" and x.ndim > 1 and x.numel():
            axes = axes_of(self.members, block, ndim=x.ndim)

            def compare(x: Tensor) -> None:
                self.similarity.put(block, **collapse_columns(x, axes))

            if x.device.type == "cpu" or x.numel() > SMALL:
                compare(x)
            else:
                self.readings.add(compare, x.clone())

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """The norm at the input."""
        self._put(block, "norm_in", gradient)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """The norm at the output."""
        self._put(block, "norm_out", gradient)

    def _put(self, block: Block, column: str, gradient: Tensor) -> None:
        def put(norm: float, lost: float) -> None:
            self.lost[block.index] = max(lost, self.lost.get(block.index, 0.0))
            self.norms.put(block, **{column: norm, "non_finite": self.lost[block.index]})

        read_norm(self.readings, gradient, put)

    def measurements(self) -> tuple[Measurement, Measurement]:
        """The records, once the pass is over."""
        self.readings.flush()
        return (
            self.similarity.measurement("representations"),
            self.norms.measurement("gradients"),
        )


class ByPart(Observer):
    """Hands what is seen at the body to some observers, and what is seen at stem and head to another."""

    def __init__(self, body: tuple[Observer, ...], around: Observer) -> None:
        self.body = body
        self.around = (around,)

    def _observers(self, block: Block) -> tuple[Observer, ...]:
        return self.body if block.part == "body" else self.around

    def on_input(self, block: Block, x: Tensor) -> None:
        """Pass it on."""
        for observer in self._observers(block):
            observer.on_input(block, x)

    def on_output(self, block: Block, x: Tensor) -> None:
        """Pass it on."""
        for observer in self._observers(block):
            observer.on_output(block, x)

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """Pass it on."""
        for observer in self._observers(block):
            observer.on_input_gradient(block, gradient)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """Pass it on."""
        for observer in self._observers(block):
            observer.on_output_gradient(block, gradient)


def around_measurement(blocks: tuple[Block, ...], parts: Iterable[Measurement]) -> Measurement:
    """The measurement `around`: a row for each block of stem and head, columns `measurement.column`.

    Examples:
        >>> fc = Block(index=3, name="fc", end="fc", kind="Linear", part="head")
        >>> norms = Measurement(name="weights", blocks=(fc,), columns={"norm": (2.0,)})
        >>> around_measurement((fc,), [norms])["weights.norm"]
        (2.0,)
    """
    labels = [block.label for block in blocks]
    columns: dict[str, tuple[Number, ...]] = {}
    for part in parts:
        at = {block.label: i for i, block in enumerate(part.blocks)}
        for column, values in part.columns.items():
            columns[f"{part.name}.{column}"] = tuple(values[at[label]] for label in labels)
    return Measurement(name=AROUND, blocks=blocks, columns=columns)


def on_body(measurement: Measurement) -> Measurement:
    """A measurement of all rows without those of stem and head."""
    kept = [i for i, block in enumerate(measurement.blocks) if block.part == "body"]
    if len(kept) == len(measurement.blocks):
        return measurement
    return replace(
        measurement,
        blocks=tuple(measurement.blocks[i] for i in kept),
        columns={
            column: tuple(values[i] for i in kept) for column, values in measurement.columns.items()
        },
    )


def with_around(measured: Mapping[str, Measurement], blocks: Blocks) -> dict[str, Measurement]:
    """The measurements of the body with the rows of stem and head; None where they have no value.

    Examples:
        >>> conv = Block(index=0, name="conv", end="conv", kind="Conv2d")
        >>> fc = Block(index=1, name="fc", end="fc", kind="Linear", part="head")
        >>> found = Blocks((conv,), "given", around=(fc,))
        >>> norms = Measurement(name="weights", blocks=(conv,), columns={"norm": (1.0,), "min": (0.0,)})
        >>> beside = Measurement(name="around", blocks=(fc,), columns={"weights.norm": (2.0,)})
        >>> dict(with_around({"weights": norms, "around": beside}, found)["weights"].columns)
        {'norm': (1.0, 2.0), 'min': (0.0, None)}
    """
    if AROUND not in measured:
        return dict(measured)
    beside = measured[AROUND]
    rows = tuple(blocks.rows)

    def joined(measurement: Measurement, column: str) -> tuple[Number, ...]:
        inner = zip(measurement.blocks, measurement[column], strict=True)
        outer = beside.columns.get(f"{measurement.name}.{column}", (None,) * len(beside.blocks))
        values = {block.label: value for block, value in inner}
        values |= {block.label: value for block, value in zip(beside.blocks, outer, strict=True)}
        return tuple(values[block.label] for block in rows)

    return {
        name: replace(
            measurement,
            blocks=rows,
            columns={column: joined(measurement, column) for column in measurement.columns},
        )
        if measurement.blocks == tuple(blocks) and measurement.blocks
        else measurement
        for name, measurement in measured.items()
        if name != AROUND
    }
