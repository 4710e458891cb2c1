"""Published results: small JSON and PNG files from which the pages of the papers are made."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from bathyscope.core.files import write_atomic
from bathyscope.core.records import ClaimCheck
from bathyscope.studies.record import StudyResult

CLAIMS_FILE = "claims.json"
_DIGITS = 4
_DOTS_PER_INCH = 80


def publish(result: StudyResult, folder: Path) -> Path:
    """Write NAME.PRESET.json and NAME.PRESET.png into a folder, and return the former's path.

    The JSON has what `StudyResult.as_dict` has: checks, notes and provenance with commits, settings,
    seeds, versions and seconds; not the table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.study}.{result.preset}.json"
    result.figure().savefig(path.with_suffix(".png"), dpi=_DOTS_PER_INCH)
    write_atomic(path, json.dumps(result.as_dict(), indent=1, ensure_ascii=False).encode() + b"\n")
    return path


def read_published(folder: Path) -> dict[str, dict[str, dict[str, object]]]:
    """What was published in a folder, by study and preset."""
    outcome: dict[str, dict[str, dict[str, object]]] = {}
    for path in sorted(folder.glob("*.*.*.json")):
        result = json.loads(path.read_bytes())
        outcome.setdefault(result["study"], {})[result["preset"]] = result
    return outcome


def publish_claims(checks: Iterable[ClaimCheck], folder: Path, *, commit: str) -> Path:
    """Write verdicts, assumptions and what was compared of checked claims; those of others stay.

    Args:
        checks: records of `claims.check`.
        folder: where `claims.json` is, or will be.
        commit: that made them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CLAIMS_FILE
    rows = published_claims(folder) | {
        record.claim: {
            "verdict": record.verdict.value,
            "vacuous": record.vacuous,
            "definition": record.definition,
            "extra_assumption": record.extra_assumption,
            "corrected": record.corrected,
            "assumptions": [asdict(assumption) for assumption in record.assumptions],
            "relations": record.numbers["relations"],
            "seed": record.settings["seed"],
            "commit": commit,
        }
        for record in checks
    }
    text = json.dumps(_round_numbers(rows), indent=1, ensure_ascii=False)
    write_atomic(path, text.encode() + b"\n")
    return path


def published_claims(folder: Path) -> dict[str, dict[str, object]]:
    """The published verdicts by claim; none where there is no such file."""
    path = folder / CLAIMS_FILE
    return json.loads(path.read_bytes()) if path.is_file() else {}


def _round_numbers(value: object) -> object:
    """Floats to four digits, those that are non-finite as text, as JSON can hold them."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if abs(value) < float("inf") else str(value)
    if isinstance(value, Mapping):
        return {str(key): _round_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round_numbers(item) for item in value]
    return value
