"""The page that counts, for each paper that numbers its statements, what stands, what is missing and why."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from bathyscope.claims import Claim, all_claims
from bathyscope.plugins.papers import papers
from bathyscope.studies import Study, all_studies

PAGE = """# How the papers stand

For each of the four papers: how many of its numbered statements are here, what came out of them, and how
its figures and tables came out, each linked. A figure counts by its longest preset that was run:
*reproduced* where every check of it is met, *contradicted at this scale* where one is not, *unresolved* where
what is not met lies within two standard errors, or nothing is judged. Scale is the usual reason: networks
are narrower and trained for minutes. A result on other data than the paper's is counted, and counted apart.
Newer papers, of which a statement or two each is checked, are not counted here.

Each line of a review of these pages, with what was changed, stands on [a page of its own](review.md).

## Statements

{statements}
## Figures and tables

{figures}{papers}"""


STATEMENTS = (
    "numbered statements that are here",
    "missing",
    "further statements",
    "hold",
    "hold under an assumption",
    "violated",
    "not supported here",
    "nothing to test",
)
FIGURES = (
    "run",
    "reproduced",
    "of these on other data",
    "contradicted at this scale",
    "of these on other data",
    "unresolved",
)
_STATEMENTS = (
    "theorem",
    "lemma",
    "corollary",
    "proposition",
    "definition",
    "assumption",
    "remark",
    "algorithm",
)
Outcome = Callable[[list[dict[str, Any]]], tuple[str, str]]
Results = Mapping[str, Mapping[str, Mapping[str, Any]]]


def page(
    verdicts: Mapping[str, Any], results: Results, outcome: Outcome, presets: tuple[str, ...]
) -> str:
    """The page, from published verdicts and results."""
    columns: dict[str, tuple[list[Any], list[Any]]] = {}
    text = ""
    for theme, package in papers().items():
        module = importlib.import_module(package)
        if not hasattr(module, "NUMBERED"):
            continue
        claims = [claim for claim in all_claims().values() if claim.theme == theme]
        studies = [study for study in all_studies().values() if study.name.startswith(f"{theme}.")]
        numbered, missing = _numbered(module.NUMBERED, claims)
        by_verdict = _by_verdict(claims, verdicts)
        by_outcome = _by_outcome(studies, results, outcome, presets)
        numbers = [
            f"{len(numbered)} of {len(numbered) + len(missing)}",
            len(missing),
            len(claims) - len(numbered),
            len(by_verdict["holds"]) + len(by_verdict["holds by definition"]),
            len(by_verdict["holds under"]),
            len(by_verdict["violated"]),
            len(by_verdict["not supported here"]),
            len(by_verdict["nothing to test"]),
        ]
        other = {
            word: _on_other_data(names, results, presets) for word, names in by_outcome.items()
        }
        reproduced, contradicted, unresolved = by_outcome
        figures = [
            sum(map(len, by_outcome.values())),
            *(
                len(part[word])
                for word in (reproduced, contradicted)
                for part in (by_outcome, other)
            ),
            len(by_outcome[unresolved]),
        ]
        columns[theme] = numbers, figures
        text += _paper(theme, module, missing, by_verdict, by_outcome, claims, studies)
    return PAGE.format(
        statements=_table(STATEMENTS, {theme: numbers for theme, (numbers, _) in columns.items()}),
        figures=_table(FIGURES, {theme: numbers for theme, (_, numbers) in columns.items()}),
        papers=text,
    )


def _table(rows: tuple[str, ...], columns: Mapping[str, list[Any]]) -> str:
    """A column per paper, as there are more numbers than a page is wide."""
    head = f"| | {' | '.join(f'[{theme}](#{theme})' for theme in columns)} |\n"
    lines = (
        f"| {row} | {' | '.join(str(c[k]) for c in columns.values())} |\n"
        for k, row in enumerate(rows)
    )
    return head + "|---" * (len(columns) + 1) + "|\n" + "".join(lines)


def _on_other_data(names: list[str], results: Results, presets: tuple[str, ...]) -> list[str]:
    """Those whose longest preset ran on a substitute for the paper's data."""
    longest = {name: max(results[name], key=presets.index) for name in names}
    return [name for name in names if "[substitute" in results[name][longest[name]]["title"]]


def _numbered(counts: Mapping[str, int], claims: list[Claim]) -> tuple[list[str], list[str]]:
    """What the paper numbers: what is here, and what is not."""
    here = {claim.name.partition(".")[2] for claim in claims}
    names = [f"{kind}_{k}" for kind in _STATEMENTS for k in range(1, counts.get(kind, 0) + 1)]
    return [n for n in names if n in here], [n for n in names if n not in here]


def _by_verdict(claims: list[Claim], verdicts: Mapping[str, Any]) -> dict[str, list[str]]:
    words = ("holds", "holds by definition", "holds under", "violated", "not supported here")
    result: dict[str, list[str]] = {word: [] for word in (*words, "nothing to test")}
    for claim in claims:
        word = verdicts.get(claim.name, {}).get("verdict", claim.status)
        word += " by definition" if claim.definition and word == "holds" else ""
        result.setdefault(word, []).append(claim.name)
    return result


def _by_outcome(
    studies: list[Study], results: Results, outcome: Outcome, presets: tuple[str, ...]
) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {
        "reproduced": [],
        "contradicted at this scale": [],
        "unresolved": [],
    }
    for study in studies:
        shown = results.get(study.name, {})
        if shown:
            longest = max(shown, key=presets.index)
            result[outcome(shown[longest]["checks"])[0]].append(study.name)
    return result


def _paper(
    theme: str,
    module: Any,
    missing: list[str],
    by_verdict: Mapping[str, list[str]],
    by_outcome: Mapping[str, list[str]],
    claims: list[Claim],
    studies: list[Study],
) -> str:
    counts = ", ".join(_counted(count, kind) for kind, count in module.NUMBERED.items())
    lines = [
        f"The paper numbers: {counts}. Missing of its statements: {', '.join(missing) or 'none'}."
    ]
    for word, names in by_verdict.items():
        if names:
            links = ", ".join(f"[{_short(n)}](../ledger.md#{n.replace('.', '')})" for n in names)
            lines.append(f"**{word}: {len(names)}.** {links}.")
    for word, names in by_outcome.items():
        if names:
            links = ", ".join(
                f"[{_short(n)}]({theme}-figures.md#{n.replace('.', '')})" for n in names
            )
            lines.append(
                f"**{word}: {len(names)}.** {links}. The reasons are in [the table]({theme}.md#results)."
            )
    absent = "; ".join(f"{name} ({why})" for name, why in module.NO_STUDY.items())
    lines.append(f"No study stands behind {absent}.")
    open_parts = sum(len(claim.undecided) for claim in claims) + sum(
        len(s.undecided) for s in studies
    )
    if open_parts:
        lines.append(
            f"Parts of statements and figures that nothing here decides: {open_parts}, listed with their "
            f"reasons beside [the statements]({theme}-statements.md) and in [the table]({theme}.md#results)."
        )
    return f"\n## {theme}\n\n" + "\n\n".join(lines) + "\n"


def _counted(count: int, kind: str) -> str:
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return f"{count} {kind if count == 1 else plural}"


def _short(name: str) -> str:
    return name.partition(".")[2].replace("_", " ")
