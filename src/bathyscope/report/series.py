"""The numeric columns of a report, lined up with its blocks."""

from dataclasses import dataclass
from math import inf, isfinite

from bathyscope.core.records import Measurement, Number
from bathyscope.report.glossary import quantity
from bathyscope.report.quantity import Quantity
from bathyscope.report.record import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One quantity over depth: a value a block of the report, None where it was not measured."""

    key: str
    quantity: Quantity
    values: tuple[float | None, ...]

    @property
    def finite(self) -> tuple[float, ...]:
        """The values that are finite, in order."""
        return tuple(v for v in self.values if v is not None and isfinite(v))


def align(measurement: Measurement, column: str, report: Report) -> tuple[Number, ...]:
    """A column's values in the order of the report's blocks, None where a block was not measured."""
    values = measurement.columns[column]
    if measurement.blocks == report.blocks:
        return values
    at = {block.label: value for block, value in zip(measurement.blocks, values, strict=True)}
    return tuple(at.get(block.label) for block in report.blocks)


def columns_of(report: Report) -> dict[str, tuple[Number, ...]]:
    """Every column by `measurement.column`, one value a block of the report, as it is to be shown."""
    found = {
        f"{measurement.name}.{column}": align(measurement, column, report)
        for measurement in report.measurements
        for column in measurement.columns
    }
    return {
        key: tuple(map(_inverse, values)) if quantity(key).inverse else values
        for key, values in found.items()
    }


def _inverse(value: Number) -> Number:
    if value is None or isinstance(value, (bool, str)):
        return value
    return 1 / value if value else inf


def series_of(report: Report) -> dict[str, Series]:
    """The numeric columns by `measurement.column`, those without a single number left out.

    Examples:
        >>> from bathyscope.core.records import Block, Measurement
        >>> from bathyscope.report import Judgement
        >>> fc = Block(index=0, name="fc", end="fc", kind="Linear")
        >>> measured = Measurement(name="weights", blocks=(fc,), columns={"range": (2,), "of": ("W",)})
        >>> report = Report(
        ...     title="mlp", verdict=Judgement(level="clean", sentence="Nothing found."),
        ...     blocks=(fc,), measurements=(measured,),
        ... )
        >>> [(key, series.values) for key, series in series_of(report).items()]
        [('weights.range', (2.0,))]
    """
    found = {}
    for key, values in columns_of(report).items():
        numbers = tuple(_as_float(value) for value in values)
        if any(value is not None for value in numbers):
            found[key] = Series(key=key, quantity=quantity(key), values=numbers)
    return found


def main_keys(*reports: Report) -> list[str]:
    """The keys that matter most, in the order of the first report that has them.

    Those the glossary marks as main; all of them where it marks none.
    """
    every = {key: series for report in reports for key, series in series_of(report).items()}
    main = [key for key, series in every.items() if series.quantity.role == "main"]
    return main or [key for key, series in every.items() if series.quantity.role != "setting"]


def _as_float(value: Number) -> float | None:
    # a truth value is no quantity: it stands in the table, not in a strip
    if value is None or isinstance(value, (bool, str)):
        return None
    return float(value)
