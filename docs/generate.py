"""Writes the pages that follow from the code, so that they cannot disagree with it.

    python docs/generate.py

`make docs` runs it; a test checks that the pages in the repository are current.
"""

from pathlib import Path

from bathyscope.claims import Claim, all_claims, themes
from bathyscope.diagnosis.codes import CODES
from bathyscope.diagnosis.thresholds import THRESHOLDS
from bathyscope.studies import Study, all_studies

DOCS = Path(__file__).parent

FINDINGS = """# Findings

What `bathyscope diagnose` can find, causes before their effects: of two findings of one severity the
one that stands higher here comes first. `bathyscope explain CODE` prints an entry; `--silence CODE`
leaves it out.

{codes}
## Thresholds

Every number that decides a finding. A TOML file overrides them (`--thresholds FILE`):

```toml
[thresholds]
dead_share = 0.5
```

| name | value | what it is | source |
|---|---|---|---|
{thresholds}
"""


def findings() -> str:
    """The page on findings and thresholds."""
    codes = "".join(
        f"## {code}\n\n**{entry.title}.** {entry.why}\n\n"
        f"*Cause:* {entry.cause}.\n\n*Source:* {entry.source}.\n\n"
        f"*What helps:* {entry.remedy or 'none known.'}\n\n"
        for code, entry in CODES.items()
    )
    rows = "\n".join(
        f"| `{name}` | {t.value:g} | {_cell(t.meaning)} | {_cell(t.source)} |"
        for name, t in THRESHOLDS.items()
    )
    return FINDINGS.format(codes=codes, thresholds=rows)


LEDGER = """# The ledger

Every numbered statement of the four papers, in our own words, and how it is tested. `bathyscope check ID`
tests one and prints verdict and numbers, `bathyscope check all` all of them. A verdict is *holds*,
*holds under* (with the extra assumption named), *violated* (with what is true instead, where that is known
and was checked), *not supported here* (an experiment of ours does not show it, which is no refutation) or
*inapplicable* (an assumption failed, shown with its number). A claim that holds and says nothing is flagged
*vacuous*.

{count} statements, of which {coded} are coded.
{themes}"""


def ledger() -> str:
    """The page of all claims: statements, assumptions and tests, from the registry alone."""
    text = ""
    for theme in themes():
        rows = [claim for claim in all_claims().values() if claim.theme == theme]
        text += f"\n## {theme}\n" + "".join(_claim(claim) for claim in rows)
    coded = sum(claim.status == "coded" for claim in all_claims().values())
    return LEDGER.format(count=len(all_claims()), coded=coded, themes=text)


def _claim(claim: Claim) -> str:
    lines = [f"\n### {claim.name}\n\n{claim.statement}\n"]
    if claim.assumptions:
        lines.append(f"\n*Assumes:* {'; '.join(claim.assumptions)}.\n")
    mark = "" if claim.status == "coded" else f"**{claim.status.capitalize()}.** "
    lines.append(f"\n*Tested:* {mark}{claim.tested}\n")
    if {"model", "data"} & set(claim.takes):
        own = " and ".join(word for word in ("model", "data") if word in claim.takes)
        lines.append(f"\n*Takes your own:* {own}.\n")
    return "".join(lines)


STUDY_PAGE = """# Studies

Every figure and table of the papers that an experiment stands behind, as something you can run:

```
bathyscope reproduce list
bathyscope reproduce shortcut_length.figure_4
bathyscope reproduce all --preset quick --out studies
```

```python
import bathyscope as bs

result = bs.studies.run("shortcut_length.figure_4", preset="quick")
result.table        # tidy, one row an observation
result.checks       # what of the paper's shape was met, each with its number
result.figure()     # a matplotlib figure
result.provenance   # settings, seeds, versions, hardware
```

Presets: `quick` takes minutes on two cores and needs no download; `full` takes larger data at reduced
length; `paper` has the paper's own settings. `--seeds N` repeats every run with so many seeds. Every run has
its folder under `studies/runs`, named by its configuration: a study that was killed goes on where it stood,
studies share the runs they have in common, and two runs of one preset and seed give the same numbers.
`studies/index.html` shows all results: each figure with its preset, what was met and what was not.

One study has a page of its own: [which came first](which-came-first.md), exploding gradients, collapse or
singularity.
{themes}"""


def studies() -> str:
    """The page of all studies: what each shows, and its presets."""
    themes = ""
    for theme in dict.fromkeys(name.split(".")[0] for name in all_studies()):
        themes += f"\n## {theme}\n"
        themes += "".join(_study(s) for n, s in all_studies().items() if n.startswith(f"{theme}."))
    return STUDY_PAGE.format(themes=themes)


def _study(study: Study) -> str:
    rows = "\n".join(
        f"| {name} | {', '.join(f'{k} {_value(v)}' for k, v in preset.resolved().items())} |"
        for name, preset in study.presets.items()
    )
    notes = "".join(f"\n{note}\n" for note in study.notes)
    return (
        f"\n### {study.name}\n\n**{study.title}.** {study.shows}\n{notes}\n"
        f"| preset | settings |\n|---|---|\n{rows}\n"
    )


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"findings.md": findings, "ledger.md": ledger, "studies.md": studies}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
