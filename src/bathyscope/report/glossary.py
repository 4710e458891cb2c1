"""The end of the page: what every quantity means, provenance and notes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bathyscope.measure.quantities import quantity_of
from bathyscope.report.numbers import number
from bathyscope.report.record import Report


@dataclass(frozen=True, slots=True)
class GlossaryEntry:
    """What a quantity is, what is good and why it matters; one entry for all its modes."""

    label: str
    text: str
    quantities: Sequence[str]


def glossary(keys: Iterable[str]) -> list[GlossaryEntry]:
    """An entry for every quantity that is described."""
    alike: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        known = quantity_of(key)
        if known.description:
            alike.setdefault((known.label.partition(" (")[0], known.description), []).append(key)
    return [GlossaryEntry(label, text, members) for (label, text), members in alike.items()]


def provenance(report: Report) -> list[tuple[str, str]]:
    """What decides the numbers: versions, hardware, seed."""
    return [(name, number(value)) for name, value in report.provenance.items()]


def recorded_settings(report: Report) -> list[tuple[str, str]]:
    """What each measurement has recorded beside its columns; what was not there is left out."""
    pairs = []
    for measurement in report.measurements:
        known = {
            k: v for k, v in measurement.settings.items() if v is not None and v not in ("", ())
        }
        if known:
            text = ", ".join(f"{name} {_describe(value)}" for name, value in known.items())
            pairs.append((measurement.name, text))
    return pairs


def common_provenance(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """What the networks have in common once, and what differs by network."""
    names = dict.fromkeys(name for report in reports for name in report.provenance)
    pairs = []
    for name in names:
        values = [number(report.provenance.get(name)) for report in reports]
        pairs.append((name, values[0] if len(set(values)) == 1 else " | ".join(values)))
    return pairs


def notes(report: Report) -> list[str]:
    """What a reader must know, from the report and from each measurement."""
    measured: dict[str, list[str]] = {}
    for measurement in report.measurements:
        for note in measurement.notes:
            measured.setdefault(note, []).append(measurement.name)
    own = [f"{', '.join(names)}: {note}" for note, names in measured.items()]
    return [*report.notes, *own]


def _describe(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_describe, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return number(value)
    return str(value)
