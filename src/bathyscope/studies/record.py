"""What a study is, and what it gives."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd
from pydantic import Field

from bathyscope.core.files import make_folder, write_atomic
from bathyscope.runs import Configuration, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bathyscope.studies.store import Store

C = TypeVar("C", bound=Configuration)

PRESETS = ("quick", "full", "cited", "printed")
"""Settings of ours, small and larger; those of the code that a paper names; those that it prints."""

TABLE, FIGURE, RESULT = "table.csv", "figure.png", "result.json"


class Preset(Configuration):
    """The settings of a study; each study adds its own.

    Attributes:
        data: name of the data set.
        seeds: how many seeds, 0, 1, …, every run is repeated with.

    `sources` says of every setting of the presets `cited` and `printed` where it is from.
    """

    sources: ClassVar[Mapping[str, str]] = {}

    data: str = "digits"
    seeds: int = Field(default=1, ge=1)

    def task(self, run: type[C], /, **settings: Any) -> C:
        """A run of that class: what it and this preset have under one name, and the settings given.

        Args:
            run: its class.
            settings: all else that it takes; of one that the preset has too, this is taken.
        """
        shared = type(self).model_fields.keys() & run.model_fields.keys()
        return run(**{name: getattr(self, name) for name in shared} | settings)

    def data_names(self) -> set[str]:
        """The names of all data sets that are read."""
        return {self.data} | {also for also in [getattr(self, "also", None)] if also is not None}


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the shape that the paper shows, and whether it was met here.

    Attributes:
        statement: what is looked for, with its bound.
        passed: None where the number is reported and not judged.
        value: the number that decides.
    """

    statement: str
    passed: bool | None
    value: float | int | str

    @property
    def text(self) -> str:
        """The value to four digits."""
        return f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a result comes from: settings, seeds, and the runs it was read from.

    Attributes:
        settings: of the preset, every key.
        seeds: that the runs used.
        num_runs: how many runs it is read from.
        seconds: spent in these runs, whenever they were run.
        cpu_seconds: of processor time in these runs: what they cost, however busy the machine was.
        versions: of Python and the packages.
        hardware: of the machines.
        commits: of the working trees.
    """

    settings: Mapping[str, object]
    seeds: tuple[int, ...]
    num_runs: int
    seconds: float
    cpu_seconds: float
    versions: Mapping[str, str]
    hardware: tuple[Mapping[str, object], ...]
    commits: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What a study found.

    Attributes:
        study: its name.
        title: the same in words.
        preset: the preset's name.
        table: tidy, one row an observation.
        checks: what of the paper's shape was met, each with its number.
        notes: what a reader must know.
        provenance: settings, seeds, versions, hardware.
    """

    study: str
    title: str
    preset: str
    table: pd.DataFrame
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    provenance: Provenance
    draw: Callable[[], "Figure"] = field(repr=False)

    @property
    def num_passed(self) -> int:
        """Checks that were met."""
        return sum(check.passed is True for check in self.checks)

    @property
    def num_judged(self) -> int:
        """Checks that are met or not, the reported numbers left out."""
        return sum(check.passed is not None for check in self.checks)

    def figure(self) -> "Figure":
        """The figure, drawn afresh with matplotlib."""
        from bathyscope.studies.drawing import plain_ticks

        figure = self.draw()
        plain_ticks(figure)
        return figure

    def as_dict(self) -> dict[str, object]:
        """All but the table and the figure, as JSON can hold it."""
        return {
            "study": self.study,
            "title": self.title,
            "preset": self.preset,
            "checks": [asdict(check) | {"value": check.text} for check in self.checks],
            "notes": list(self.notes),
            "provenance": asdict(self.provenance),
        }

    def save(self, folder: Path) -> None:
        """Write table.csv, figure.png and result.json into a folder, which is made."""
        make_folder(folder)
        write_table(self.table, folder / TABLE)
        picture = io.BytesIO()
        self.figure().savefig(picture, dpi=150, format="png")
        write_atomic(folder / FIGURE, picture.getvalue())
        text = json.dumps(self.as_dict(), indent=1)
        write_atomic(folder / RESULT, text.encode() + b"\n")  # last: it says that all is there


@dataclass(frozen=True, kw_only=True)
class Study:
    """A figure or table of a paper as something that can be run.

    Attributes:
        name: `theme.kind_number`.
        title: what it is about, in a line.
        shows: what the paper shows there, in our words.
        presets: the settings of `PRESETS`: quick and full always, cited and printed where the paper
            names code or prints settings.
        tasks: the runs that a preset needs; those that other studies need too are run once.
        table: the tidy table, read from the finished runs.
        checks: what of the paper's shape was met.
        draw: the figure.
        notes: how the study departs from the paper, or what the paper leaves open.
        printed: the numbers that the paper itself prints there.
        decides: what the paper says there, in our words and with its location, by the first words of
            the checks that decide it.
        undecided: what the paper says there and no check decides.
        unmet: why checks are not met, as far as it is known.
        sources: where settings are from, beside what their class says.
    """

    name: str
    title: str
    shows: str
    presets: Mapping[str, Preset]
    tasks: Callable[[Any], list[Any]]
    table: Callable[["Store", Any], pd.DataFrame]
    checks: Callable[[pd.DataFrame, Any], tuple[Check, ...]]
    draw: Callable[[pd.DataFrame, Any], "Figure"]
    notes: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    decides: Mapping[str, str] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    unmet: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def decided_by(self, statement: str) -> str:
        """What of the paper a check decides; nothing where that is not said."""
        starts = [start for start in self.decides if statement.startswith(start)]
        return self.decides[max(starts, key=len)] if starts else ""

    @property
    def original(self) -> Preset | None:
        """The settings of the paper, printed or cited; None where it has none."""
        return self.presets.get("printed") or self.presets.get("cited")

    def source_of(self, setting: str) -> str:
        """Where a setting of the presets cited and printed is from; nothing where that is not said."""
        preset = self.original
        own = {} if preset is None else type(preset).sources
        return self.sources.get(setting) or own.get(setting, "") or Preset.sources.get(setting, "")
