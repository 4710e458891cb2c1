"""A report as JSON and back, exactly: pydantic models check what is read, and give the schema.

The models of blocks, findings and forecasts are made from the records themselves, so that a field
that is added there is written, read, checked and described here. Infinities are strings; see
`core.json_values`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonObject, decode_json, encode_json
from bathyscope.core.records import Block, Finding, Measurement
from bathyscope.foresight.record import Forecast
from bathyscope.report.record import Judgment, Level, Report

SCHEMA = "bathyscope.report/1"
R = TypeVar("R")

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Count = Annotated[int, Field(ge=0)]
SavedNumber = Annotated[
    float | int | Literal["inf", "-inf", "nan"],
    Field(description="A finite number, or infinity or NaN as a string."),
]
SavedValue = Annotated[
    float | int | bool | str | None,
    Field(description="A text that reads inf, -inf or nan has a backslash in front."),
]


def _model_of(record: type, **types: object) -> type[BaseModel]:
    """The model of a record: its fields with their types, some of them narrowed."""
    hints = get_type_hints(record, include_extras=True) | types
    described: JsonObject = {}
    for one in fields(record):
        default = ... if one.default is MISSING else one.default
        described[one.name] = (hints[one.name], default)
    return create_model(f"Saved{record.__name__}", __config__=_STRICT, **described)


if TYPE_CHECKING:
    SavedBlock = BaseModel
    SavedFinding = BaseModel
    SavedForecast = BaseModel
else:
    SavedBlock = _model_of(
        Block,
        **dict.fromkeys(("call", "num_parameters"), Count),
        **dict.fromkeys(("in_shape", "out_shape"), tuple[Count, ...]),
    )
    SavedFinding = _model_of(Finding, evidence=dict[str, SavedValue], score=SavedNumber, step=Count)
    SavedForecast = _model_of(
        Forecast,
        probability=Annotated[float, Field(ge=0, le=1)],
        spent=Count,
        calibrated_on=dict[str, JsonValue],
    )


class SavedVerdict(BaseModel):
    """A level and a sentence."""

    model_config = _STRICT
    level: Level
    sentence: str


class SavedMeasurement(BaseModel):
    """A measurement; `blocks` is null where they are the report's."""

    model_config = _STRICT
    name: str
    blocks: list[SavedBlock] | None
    columns: dict[str, list[SavedValue]]
    settings: dict[str, JsonValue]
    notes: list[str]


class SavedStage(BaseModel):
    """A report at a moment."""

    model_config = _STRICT
    label: str
    report: "SavedState"


class SavedState(BaseModel):
    """A report inside a report: all but the schema's name."""

    model_config = _STRICT
    title: str
    verdict: SavedVerdict
    blocks: list[SavedBlock]
    measurements: list[SavedMeasurement]
    findings: list[SavedFinding]
    provenance: dict[str, SavedValue]
    before: "SavedState | None"
    stages: list[SavedStage]
    curves: dict[str, list[tuple[float | int, SavedNumber | None]]]
    notes: list[str]
    forecast: SavedForecast | None = None
    code: str = ""
    outcome: str = ""
    explained_by: list[Count | None] = []
    passed: list[str] = []
    not_checked: dict[str, str] = {}
    decisive: str = ""


class SavedReport(SavedState):
    """A whole report."""

    form: Literal["bathyscope.report/1"] = Field(alias="schema")


def schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) that every written report satisfies."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "$id": SCHEMA} | SavedReport.model_json_schema()


def to_json(report: Report) -> dict[str, object]:
    """The report as plain dicts, lists, strings and finite numbers.

    Sequences inside `Measurement.settings` come back as tuples, and objects that JSON has no form
    for (a dtype) as their text.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> written = to_json(Report(title="mlp", verdict=clean, blocks=()))
        >>> written["schema"], written["title"]
        ('bathyscope.report/1', 'mlp')
        >>> from_json(written).verdict.level
        'clean'
    """
    return {"schema": SCHEMA, **_state(report)}


def from_json(written: object) -> Report:
    """The report that `to_json` wrote.

    Raises:
        UsageError: the schema is not the one this version reads, or a field is missing or wrong.
    """
    given = written.get("schema") if isinstance(written, Mapping) else None
    if given != SCHEMA:
        raise UsageError(
            f"This is not a report that this version can read: its schema is {given!r}, "
            f"{SCHEMA!r} is wanted; write it again with this version of bathyscope."
        )
    try:
        # as text: only there a list is a tuple and a word a severity, with everything else strict
        saved = SavedReport.model_validate_json(json.dumps(written, allow_nan=False))
        return _read_state(saved)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    except (AssertionError, ValueError, RecursionError) as error:
        reason = str(error)
    raise UsageError(
        f"The report is damaged: {reason}; it says {SCHEMA!r} but does not follow "
        "docs/report-schema.md."
    )


def _state(report: Report) -> dict[str, object]:
    return {
        "title": report.title,
        "verdict": asdict(report.verdict),
        "blocks": [_record(block) for block in report.blocks],
        "measurements": [_measurement(m, report.blocks) for m in report.measurements],
        "findings": [_record(finding) for finding in report.findings],
        "provenance": encode_json(report.provenance),
        "before": _state(report.before) if report.before is not None else None,
        "stages": [{"label": label, "report": _state(stage)} for label, stage in report.stages],
        "curves": encode_json(report.curves),
        "notes": list(report.notes),
        "forecast": None if report.forecast is None else _record(report.forecast),
        "code": report.code,
        "outcome": report.outcome,
        "explained_by": list(report.explained_by),
        "passed": list(report.passed),
        "not_checked": dict(report.not_checked),
        "decisive": report.decisive,
    }


def _record(record: Block | Finding | Forecast) -> JsonObject:
    # names and sentences stay as they are; only values can be taken for infinities
    return {one.name: _field(getattr(record, one.name)) for one in fields(record)}


def _field(value: object) -> object:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    return encode_json(value)


def _measurement(measurement: Measurement, blocks: tuple[Block, ...]) -> dict[str, object]:
    same = measurement.blocks == blocks  # nearly always; repeating them would triple the file
    return {
        "name": measurement.name,
        "blocks": None if same else [_record(block) for block in measurement.blocks],
        "columns": encode_json(measurement.columns),
        "settings": encode_json(measurement.settings),
        "notes": list(measurement.notes),
    }


def _read_state(saved: SavedState) -> Report:
    blocks = _read_all(Block, saved.blocks)
    return Report(
        title=saved.title,
        verdict=Judgment(level=saved.verdict.level, sentence=saved.verdict.sentence),
        blocks=blocks,
        measurements=tuple(_read_measurement(m, blocks) for m in saved.measurements),
        findings=_read_all(Finding, saved.findings),
        provenance=decode_json(saved.provenance),
        before=None if saved.before is None else _read_state(saved.before),
        stages=tuple((stage.label, _read_state(stage.report)) for stage in saved.stages),
        curves={
            name: tuple((step, decode_json(value)) for step, value in curve)
            for name, curve in saved.curves.items()
        },
        notes=tuple(saved.notes),
        forecast=None if saved.forecast is None else Forecast(**dict(saved.forecast)),
        code=saved.code,
        outcome=saved.outcome,
        explained_by=tuple(saved.explained_by),
        passed=tuple(saved.passed),
        not_checked=dict(saved.not_checked),
        decisive=saved.decisive,
    )


def _read_all(record: Callable[..., R], saved: Sequence[BaseModel]) -> tuple[R, ...]:
    """Records of models; values in `evidence` and `score` may be infinities."""
    result = []
    for model in saved:
        values = dict(model)
        values |= {key: decode_json(values[key]) for key in ("evidence", "score") if key in values}
        result.append(record(**values))
    return tuple(result)


def _read_measurement(saved: SavedMeasurement, blocks: tuple[Block, ...]) -> Measurement:
    return Measurement(
        name=saved.name,
        blocks=blocks if saved.blocks is None else _read_all(Block, saved.blocks),
        columns=decode_json(saved.columns),
        settings=decode_json(saved.settings),
        notes=tuple(saved.notes),
    )
