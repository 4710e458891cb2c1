"""The end of the page: plain words for every quantity, provenance and notes."""

from collections.abc import Iterable

from bathyscope.report.glossary import quantity
from bathyscope.report.html_text import escape, joined, number_list
from bathyscope.report.numbers import number
from bathyscope.report.record import Report


def words(keys: Iterable[str]) -> str:
    """What each quantity is, what is good and why it matters."""
    alike: dict[tuple[str, str], list[str]] = {}  # one entry for a quantity in all its modes
    for key in keys:
        known = quantity(key)
        told = [known.what, f"Good: {known.good}" if known.good else "", known.why]
        text = " ".join(part for part in told if part)
        if text:
            alike.setdefault((known.label.partition(" (")[0], text), []).append(key)
    entries = []
    for (label, text), members in alike.items():
        names = " ".join(f'<code id="word-{escape(key)}">{escape(key)}</code>' for key in members)
        entries.append(f"<div><dt>{escape(label)} {names}</dt><dd>{escape(text)}</dd></div>")
    return f'<dl class="words">{joined(entries)}</dl>' if entries else ""


def provenance(report: Report) -> str:
    """What decides the numbers: versions, hardware, seed, and the settings of each measurement."""
    pairs = [(name, number(value)) for name, value in report.provenance.items()]
    for measurement in report.measurements:
        settings = [f"{name} {_told(value)}" for name, value in measurement.settings.items()]
        if settings:
            pairs.append((measurement.name, ", ".join(settings)))
    return number_list(pairs, style="provenance")


def notes(report: Report) -> str:
    """What a reader must know, from the report and from each measurement."""
    told = [*report.notes]
    told += [f"{m.name}: {note}" for m in report.measurements for note in m.notes]
    items = joined(f"<li>{escape(note)}</li>" for note in told)
    return f"<ul>{items}</ul>" if items else ""


def _told(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_told, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return number(value)
    return str(value)
