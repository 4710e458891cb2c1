"""The end of the page: plain words for every quantity, provenance and notes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bathyscope.report.glossary import quantity
from bathyscope.report.numbers import number
from bathyscope.report.record import Report


@dataclass(frozen=True, slots=True)
class WordEntry:
    """What a quantity is, what is good and why it matters; one entry for all its modes."""

    label: str
    text: str
    quantities: Sequence[str]


def word_entries(keys: Iterable[str]) -> list[WordEntry]:
    """An entry for every quantity that has words."""
    alike: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        known = quantity(key)
        told = [known.what, f"Good: {known.good}" if known.good else "", known.why]
        if text := " ".join(part for part in told if part):
            alike.setdefault((known.label.partition(" (")[0], text), []).append(key)
    return [WordEntry(label, text, members) for (label, text), members in alike.items()]


def provenance(report: Report) -> list[tuple[str, str]]:
    """What decides the numbers: versions, hardware, seed, and the settings of each measurement."""
    pairs = [(name, number(value)) for name, value in report.provenance.items()]
    for measurement in report.measurements:
        settings = [f"{name} {_in_words(value)}" for name, value in measurement.settings.items()]
        if settings:
            pairs.append((measurement.name, ", ".join(settings)))
    return pairs


def notes(report: Report) -> list[str]:
    """What a reader must know, from the report and from each measurement."""
    own = [f"{m.name}: {note}" for m in report.measurements for note in m.notes]
    return [*report.notes, *own]


def _in_words(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_in_words, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return number(value)
    return str(value)
