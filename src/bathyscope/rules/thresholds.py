"""The numbers that decide a finding: what each means, where it comes from, and what a user overrode."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bathyscope.core.arguments import check_number
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.json_values import JsonMapping


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number, what crossing it means, and its source."""

    value: float
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force: those of the rules, with what the user overrode."""

    overridden: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        from bathyscope.rules.registry import all_thresholds

        return self.overridden.get(name, all_thresholds()[name].value)

    @classmethod
    def of(cls, source: Path | str | Mapping[str, float] | None = None) -> "Thresholds":
        """Defaults overridden from a mapping or from the table `[thresholds]` of a TOML file.

        Raises:
            UsageError: the file cannot be read, a name is unknown, or a value is not a positive number.

        Examples:
            >>> Thresholds.of({"dead_fraction": 0.5})["dead_fraction"]
            0.5
        """
        from bathyscope.rules.registry import all_thresholds

        if source is None:
            return cls({})
        values: Mapping[str, object] = source if isinstance(source, Mapping) else _table(source)
        for name in values:
            if name not in all_thresholds():
                raise UnknownName("threshold", str(name), all_thresholds())
        return cls(
            {
                name: check_number(f"Threshold {name!r}", value, low=0.0, open_low=True)
                for name, value in values.items()
            }
        )


def _table(path: Path | str) -> JsonMapping:
    from bathyscope.runs import read_toml

    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"Thresholds are a mapping or a TOML file, but a {type(path).__name__} was given."
        )
    table = read_toml(Path(path)).get("thresholds")
    if not isinstance(table, dict):
        raise UsageError(f"{path} has no table [thresholds]; add one with name = number lines.")
    return table
