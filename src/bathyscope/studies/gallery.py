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
from bathyscope.plugins.papers import names_of, papers
from bathyscope.report.document import render
from bathyscope.studies.record import FIGURE, PRESETS, RESULT, Study
from bathyscope.studies.registry import study_of

PAGE = "index.html"
_MARKS = {
    True: ("passed", "passed", "✓"),
    False: ("not met", "missed", "✗"),
    None: ("reported", "", "·"),
}


class SavedCheck(BaseModel):
    """A check as `result.json` holds it."""

    statement: str
    passed: bool | None
    value: str


class SavedProvenance(BaseModel):
    """Where a saved result comes from, as far as the page shows it."""

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
    preset: Literal["quick", "full", "cited", "printed"]
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
    present = {path.parts[-3].partition(".")[0] for path in folder.glob(f"*/*/{RESULT}")}
    result = [
        _study(folder / name / preset, study_of(name))
        for theme in papers()
        if theme in present  # a paper without results here need not be loaded
        for name in names_of(theme, "studies")
        for preset in PRESETS
        if (folder / name / preset / RESULT).is_file()
    ]
    marks = [check["style"] for study in result for check in study["checks"]]
    themes = dict.fromkeys(study["name"].split(".")[0] for study in result)
    text = render(
        "gallery.html",
        title="Gallery",
        studies=result,
        num_studies=len(result),
        num_passed=marks.count("passed"),
        num_missed=marks.count("missed"),
        themes=[(t, [s for s in result if s["name"].startswith(f"{t}.")]) for t in themes],
    )
    path = folder / PAGE
    write_atomic(path, text.encode())
    return path


def read_result(path: Path) -> SavedResult:
    """A study's result.

    Raises:
        UsageError: the file cannot be read or is not a result.
    """
    result = read_json(path, what="study's result")
    try:
        return SavedResult.model_validate(result)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UsageError(
            f"{path} is not a study's result: {where}: {first['msg'].lower()}; remove it, and run the "
            "study again."
        ) from None


def _study(folder: Path, study: Study) -> JsonObject:
    result = read_result(folder / RESULT)
    origin = result.provenance
    try:
        picture = base64.b64encode((folder / FIGURE).read_bytes()).decode()
    except OSError as error:
        raise UsageError(
            f"The figure {folder / FIGURE} cannot be read: {error.strerror}; run the study again."
        ) from error
    return {
        "name": study.name,
        "title": result.title,
        "preset": result.preset,
        "shows": study.shows,
        "picture": picture,
        "checks": [
            {"statement": check.statement, "value": check.value}
            | dict(zip(("word", "style", "mark"), _MARKS[check.passed], strict=True))
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
