"""Lists that are read without loading torch: the families of networks, the claims of the papers.

They stand in `listings.json`, each with the checksum of the sources it was made from; where these have
changed since, or a list is not there, the objects themselves are asked. `python docs/generate.py`
writes the file again.
"""

import hashlib
import importlib.util
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.json_values import JsonObject
from bathyscope.plugins.papers import papers, part

if TYPE_CHECKING:
    from bathyscope.claims import Claim

FILE = Path(__file__).with_name("listings.json")
_PACKAGE = Path(__file__).parents[1]

Row = JsonObject


def family_rows() -> list[Row]:
    """The families of networks: name, depths, size of an example, options."""
    return _rows("nets", (_PACKAGE / "nets",), _families)


def claim_rows() -> list[Row]:
    """The claims of all papers that are installed, paper by paper and in each paper's order."""
    rows: list[Row] = []
    for theme in papers():
        sources = (_folder_of(theme), _PACKAGE / "claims")
        rows += _rows(theme, sources, partial(_claims, theme))
    return rows


def claim_row(claim: "Claim") -> Row:
    """What the list shows of a claim."""
    return {
        "claim": claim.name,
        "theme": claim.theme,
        "number": claim.number,
        "status": claim.status,
        "statement": claim.statement,
        "assumed": list(claim.assumptions),
        "tested": claim.tested,
        "takes": list(claim.takes),
    }


def listings_text() -> str:
    """The file's contents: every list, asked of the objects, with the checksum of its sources."""
    kept = {"nets": _keep_listing((_PACKAGE / "nets",), _families())}
    for theme in papers():
        if _PACKAGE in _folder_of(theme).parents:  # those of other packages change without us
            kept[theme] = _keep_listing((_folder_of(theme), _PACKAGE / "claims"), _claims(theme))
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def _rows(name: str, sources: tuple[Path, ...], ask: Callable[[], list[Row]]) -> list[Row]:
    kept = _listings().get(name, {})
    if kept.get("sources") != checksum(sources):
        return ask()
    rows: list[Row] = kept["rows"]
    return rows


def _keep_listing(sources: tuple[Path, ...], rows: list[Row]) -> Row:
    return {"sources": checksum(sources), "rows": rows}


@cache
def _listings() -> dict[str, Row]:
    try:
        result: dict[str, Row] = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no list, or a damaged one: the objects are asked
        return {}
    return result


def checksum(folders: tuple[Path, ...]) -> str:
    """Of the names and texts of all modules in some folders."""
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            total.update(path.relative_to(folder).as_posix().encode())
            total.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return total.hexdigest()


def _folder_of(theme: str) -> Path:
    try:
        spec = importlib.util.find_spec(papers()[theme])
    except Exception:  # a package that cannot be loaded: whoever asks for its claims says so
        spec = None
    locations = [] if spec is None else list(spec.submodule_search_locations or ())
    return Path(locations[0]) if locations else Path(papers()[theme])


def _claims(theme: str) -> list[Row]:
    return [claim_row(claim) for claim in part(theme, "claims").values()]


def _families() -> list[Row]:
    from bathyscope import nets
    from bathyscope.core.calls import num_parameters

    return [
        {
            "family": key,
            "pattern": family.pattern,
            "depths": family.formula,
            "erased_form": family.erasable,
            "summary": family.summary,
            "theme": family.theme,
            "example": family.example,
            "parameters": num_parameters(nets.skeleton(family.example)),
            "options": list(family.options()),
        }
        for key, family in nets.families().items()
    ]
