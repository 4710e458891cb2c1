"""One page with every figure, its preset, what of the paper's shape was met and what was not."""

import base64
import json
from pathlib import Path
from typing import Any

from bathyscope.core.files import write_atomic
from bathyscope.report.html_text import escape, joined, section
from bathyscope.report.page import page
from bathyscope.studies.record import FIGURE, PRESETS, RESULT
from bathyscope.studies.registry import all_studies

PAGE = "index.html"
_MARKS = {True: ("met", "✓"), False: ("not met", "✗"), None: ("reported", "·")}
_STYLE = """<style>
.study{margin:2.2rem 0;padding-top:1rem;border-top:1px solid var(--rule)}
.study img{max-width:100%;background:#fff;border-radius:4px}
.study ul{list-style:none;padding:0;margin:.6rem 0}
.study li{padding:.15rem 0 .15rem 1.6rem;text-indent:-1.6rem}
.study li b{display:inline-block;width:1.6rem;text-indent:0}
.met b{color:var(--clean)}.missed b{color:var(--problem)}
.study .from,.study .shows{color:var(--soft)}
</style>"""


def write_gallery(out: Path | str) -> Path:
    """Write `index.html` over all results of studies in a folder, and return its path.

    Args:
        out: the folder that `run` wrote to.
    """
    folder = Path(out)
    found = [
        (name, preset, json.loads((folder / name / preset / RESULT).read_bytes()))
        for name in all_studies()
        for preset in PRESETS
        if (folder / name / preset / RESULT).is_file()
    ]
    themes = dict.fromkeys(name.split(".")[0] for name, _, _ in found)
    sections = [
        section(
            theme.replace("_", " ").capitalize(),
            joined(
                _study(folder / name / preset, result)
                for name, preset, result in found
                if name.startswith(f"{theme}.")
            ),
            name=theme,
        )
        for theme in themes
    ]
    text = page("Gallery", joined((_STYLE, _head([result for _, _, result in found]), *sections)))
    path = folder / PAGE
    write_atomic(path, text.encode())
    return path


def _head(results: list[dict[str, Any]]) -> str:
    checks = [check for result in results for check in result["checks"]]
    met, missed = (sum(c["met"] is wanted for c in checks) for wanted in (True, False))
    links = ", ".join(
        f'<a href="#{escape(r["study"])}-{r["preset"]}">{escape(r["study"])}</a>' for r in results
    )
    return (
        "<header><h1>What the papers show, run here</h1>"
        f"<p>{len(results)} studies: {met} parts of the papers' shape were met, {missed} were not. "
        f"Each figure names its preset.</p><p>{links}</p></header>"
    )


def _study(folder: Path, result: dict[str, Any]) -> str:
    picture = base64.b64encode((folder / FIGURE).read_bytes()).decode()
    study = all_studies()[result["study"]]
    return joined(
        (
            f'<article class="study" id="{escape(result["study"])}-{result["preset"]}">',
            f"<h3>{escape(result['study'])}: {escape(result['title'])}</h3>",
            f'<p class="shows">{escape(study.shows)}</p>',
            f'<img alt="{escape(result["title"])}" src="data:image/png;base64,{picture}">',
            f"<ul>{''.join(_check(check) for check in result['checks'])}</ul>",
            "".join(f"<p>{escape(note)}</p>" for note in result["notes"]),
            _provenance(result),
            "</article>",
        )
    )


def _check(check: dict[str, Any]) -> str:
    word, mark = _MARKS[check["met"]]
    style = {"met": "met", "not met": "missed", "reported": ""}[word]
    return (
        f'<li class="{style}"><b title="{word}">{mark}</b>{escape(check["statement"])}: '
        f"<strong>{escape(check['value'])}</strong></li>"
    )


def _provenance(result: dict[str, Any]) -> str:
    origin = result["provenance"]
    settings = ", ".join(f"{k} {json.dumps(v)}" for k, v in origin["settings"].items())
    return (
        f'<p class="from">Preset <strong>{result["preset"]}</strong> ({escape(settings)}); '
        f"{origin['num_runs']} runs, seeds {escape(str(origin['seeds']))}, "
        f"{origin['seconds']:.0f} seconds; torch {escape(origin['versions'].get('torch', '?'))}.</p>"
    )
