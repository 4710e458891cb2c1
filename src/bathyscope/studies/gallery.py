"""One page with every figure, its preset, what of the paper's shape was met and what was not."""

import base64
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import read_json, write_atomic
from bathyscope.core.json_values import JsonObject
from bathyscope.report.page import render
from bathyscope.studies.record import FIGURE, PRESETS, RESULT
from bathyscope.studies.registry import all_studies

PAGE = "index.html"
_MARKS = {
    True: ("met", "met", "✓"),
    False: ("not met", "missed", "✗"),
    None: ("reported", "", "·"),
}


class SavedCheck(BaseModel):
    """A check as `result.json` holds it."""

    statement: str
    met: bool | None
    value: str


class SavedProvenance(BaseModel):
    """Where a saved result comes from, as far as the page tells it."""

    settings: dict[str, object]
    seeds: list[int]
    num_runs: int
    seconds: float = Field(allow_inf_nan=False)
    cpu_seconds: float = Field(default=0.0, allow_inf_nan=False)
    versions: dict[str, str]


class SavedResult(BaseModel):
    """A study's `result.json`, whoever wrote it."""

    study: str
    title: str
    preset: Literal["quick", "full", "paper"]
    checks: list[SavedCheck]
    notes: list[str]
    provenance: SavedProvenance


def write_gallery(out: Path | str) -> Path:
    """Write `index.html` over all results of studies in a folder, and return its path.

    Args:
        out: the folder that `run` wrote to.

    Raises:
        UsageError: a result is damaged.
    """
    folder = check_path("out", out)
    found = [
        _study(folder / name / preset, name)
        for name in all_studies()
        for preset in PRESETS
        if (folder / name / preset / RESULT).is_file()
    ]
    marks = [check["style"] for study in found for check in study["checks"]]
    themes = dict.fromkeys(study["name"].split(".")[0] for study in found)
    text = render(
        "gallery.html",
        title="Gallery",
        studies=found,
        num_studies=len(found),
        num_met=marks.count("met"),
        num_missed=marks.count("missed"),
        themes=[(t, [s for s in found if s["name"].startswith(f"{t}.")]) for t in themes],
    )
    path = folder / PAGE
    write_atomic(path, text.encode())
    return path


def read_result(path: Path) -> SavedResult:
    """A study's result.

    Raises:
        UsageError: the file cannot be read or is no result.
    """
    found = read_json(path, what="study's result")
    try:
        return SavedResult.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UsageError(
            f"{path} is no study's result: {where}: {first['msg'].lower()}; remove it, and run the "
            "study again."
        ) from None


def _study(folder: Path, name: str) -> JsonObject:
    result = read_result(folder / RESULT)
    origin = result.provenance
    try:
        picture = base64.b64encode((folder / FIGURE).read_bytes()).decode()
    except OSError as error:
        raise UsageError(
            f"The figure {folder / FIGURE} cannot be read: {error.strerror}; run the study again."
        ) from error
    return {
        "name": name,
        "title": result.title,
        "preset": result.preset,
        "shows": all_studies()[name].shows,
        "picture": picture,
        "checks": [
            {"statement": check.statement, "value": check.value}
            | dict(zip(("word", "style", "mark"), _MARKS[check.met], strict=True))
            for check in result.checks
        ],
        "notes": result.notes,
        "settings": ", ".join(f"{k} {json.dumps(v)}" for k, v in origin.settings.items()),
        "num_runs": origin.num_runs,
        "seeds": ", ".join(map(str, origin.seeds)),
        "seconds": f"{origin.cpu_seconds:.0f} CPU"
        if origin.cpu_seconds
        else f"{origin.seconds:.0f}",
        "torch": origin.versions.get("torch", "?"),
    }
