"""A report as JSON and back, exactly. The form is versioned and described by `schema.json`.

JSON knows neither infinity nor NaN: they are written as the strings "inf", "-inf" and "nan". A real
string that reads so is written with a backslash in front, so that nothing is lost on the way back.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib.resources import files
from typing import Any

from bathyscope.core.errors import UsageError
from bathyscope.core.forecast import Forecast
from bathyscope.core.json_values import decode_json, encode_json
from bathyscope.core.records import Block, Finding, Measurement, Severity
from bathyscope.report.record import Judgement, Report

SCHEMA = "bathyscope.report/1"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every written report satisfies."""
    text = files("bathyscope.report").joinpath("schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain dicts, lists, strings and finite numbers.

    Sequences inside `Measurement.settings` come back as tuples, and objects that JSON has no form
    for (a dtype) as their text.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> written = to_json(Report(title="mlp", verdict=clean, blocks=()))
        >>> written["schema"], written["title"]
        ('bathyscope.report/1', 'mlp')
        >>> from_json(written).verdict.level
        'clean'
    """
    return {"schema": SCHEMA, **_report(report)}


def from_json(written: object) -> Report:
    """The report that `to_json` wrote.

    Raises:
        UsageError: the schema is not the one this version reads, or a field is missing or wrong.
    """
    given = written.get("schema") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping) or given != SCHEMA:
        raise UsageError(
            f"This is no report that this version can read: its schema is {given!r}, "
            f"{SCHEMA!r} is wanted; write it again with this version of bathyscope."
        )
    try:
        return _read_report({k: v for k, v in written.items() if k != "schema"})
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"The report is damaged: {type(error).__name__}: {error}; "
            f"it says {SCHEMA!r} but does not follow docs/report-schema.md."
        ) from error


def _report(report: Report) -> dict[str, Any]:
    return {
        "title": report.title,
        "verdict": {"level": report.verdict.level, "sentence": report.verdict.sentence},
        "blocks": [_fields(block) for block in report.blocks],
        "measurements": [_measurement(m, report.blocks) for m in report.measurements],
        "findings": [_fields(finding) for finding in report.findings],
        "provenance": encode_json(report.provenance),
        "before": _report(report.before) if report.before is not None else None,
        "stages": [{"label": label, "report": _report(stage)} for label, stage in report.stages],
        "curves": encode_json(report.curves),
        "notes": list(report.notes),
        "forecast": None if report.forecast is None else encode_json(asdict(report.forecast)),
    }


def _fields(record: Block | Finding) -> dict[str, Any]:
    # names and sentences stay as they are; only values can be taken for infinities
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {
        name: str(value) if isinstance(value, str) else encode_json(value)
        for name, value in values.items()
    } | ({"blocks": list(record.blocks)} if isinstance(record, Finding) else {})


def _measurement(measurement: Measurement, blocks: tuple[Block, ...]) -> dict[str, Any]:
    same = measurement.blocks == blocks  # nearly always; repeating them would triple the file
    return {
        "name": measurement.name,
        "blocks": None if same else [_fields(block) for block in measurement.blocks],
        "columns": encode_json(measurement.columns),
        "settings": encode_json(measurement.settings),
        "notes": list(measurement.notes),
    }


def _read_report(written: Mapping[str, Any]) -> Report:
    before = written["before"]
    blocks = tuple(_read_block(block) for block in written["blocks"])
    return Report(
        title=written["title"],
        verdict=Judgement(**written["verdict"]),
        blocks=blocks,
        measurements=tuple(_read_measurement(m, blocks) for m in written["measurements"]),
        findings=tuple(_read_finding(finding) for finding in written["findings"]),
        provenance=decode_json(written["provenance"]),
        before=None if before is None else _read_report(before),
        stages=tuple((s["label"], _read_report(s["report"])) for s in written["stages"]),
        curves=decode_json(written["curves"]),
        notes=tuple(written["notes"]),
        forecast=_read_forecast(written.get("forecast")),
    )


def _read_forecast(written: Mapping[str, Any] | None) -> Forecast | None:
    """None also in a report of before there were forecasts."""
    if written is None:
        return None
    # sentences stay as they are, and a list of names inside `calibrated_on` a list
    texts = {key: tuple(written[key]) for key in ("because", "outside", "notes")}
    return Forecast(**{**written, **texts})


def _read_block(written: Mapping[str, Any]) -> Block:
    shapes = {key: tuple(written[key]) for key in ("in_shape", "out_shape")}
    return Block(**{**written, **shapes})


def _read_measurement(written: Mapping[str, Any], blocks: tuple[Block, ...]) -> Measurement:
    own = written["blocks"]
    return Measurement(
        name=written["name"],
        blocks=blocks if own is None else tuple(_read_block(block) for block in own),
        columns=decode_json(written["columns"]),
        settings=decode_json(written["settings"]),
        notes=tuple(written["notes"]),
    )


def _read_finding(written: Mapping[str, Any]) -> Finding:
    return Finding(
        **{
            **written,
            "severity": Severity(written["severity"]),
            "blocks": tuple(written["blocks"]),
            "evidence": decode_json(written["evidence"]),
            "score": decode_json(written["score"]),
        }
    )
