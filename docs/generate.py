"""Writes the pages that follow from the code, so that they cannot disagree with it.

    python docs/generate.py

`make docs` runs it; a test checks that the pages in the repository are current.
"""

import importlib
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bathyscope.claims import Claim, all_claims, themes
from bathyscope.cli import listings
from bathyscope.data import entry as data_entry
from bathyscope.data.catalog import CATALOG
from bathyscope.diagnosis import Explanation, explain
from bathyscope.plugins.papers import papers
from bathyscope.rules import all_rules, all_thresholds
from bathyscope.studies import PRESETS, Study, all_studies, published_claims, read_published

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
reference_pages = importlib.import_module("reference_pages")  # they lie beside this file
forecast_page = importlib.import_module("forecast_page")
standing_page = importlib.import_module("standing_page")

FINDINGS = """# Findings

What `bathyscope diagnose` can find and `bs.watch` can notice, causes before their effects: of two findings
of one severity the one that stands higher here comes first. A report folds what a finding brings about under
it. `bathyscope explain CODE` (or `bs.explain(code)`) prints an entry; `--silence CODE` leaves it out.

| code | cause | what it says |
|---|---|---|
{index}

{codes}
## Thresholds

Every number that decides a finding. A TOML file overrides them (`--thresholds FILE`):

```toml
[thresholds]
dead_fraction = 0.5
```

| name | value | what it is | source |
|---|---|---|---|
{thresholds}
"""


def findings() -> str:
    """The page on findings and thresholds."""
    entries = [explain(code) for code in all_rules()]
    codes = "".join(map(_finding, entries))
    index = "\n".join(f"| [{e.code}](#{e.code}) | {e.cause} | {_cell(e.title)} |" for e in entries)
    rows = "\n".join(
        f"| `{name}` | {t.value:g} | {_cell(t.meaning)} | {_cell(t.source)} |"
        for name, t in all_thresholds().items()
    )
    return FINDINGS.format(index=index, codes=codes, thresholds=rows)


def _finding(entry: Explanation) -> str:
    lines = [f"## {entry.code}", f"**{entry.title}.** {entry.explanation}"]
    lines += [f"*Cause:* {entry.cause}.", f"*Source:* {entry.source}."]
    lines.append(f"*What helps:* {entry.advice or 'none known.'}")
    if entry.event is not None:
        lines.append(f"*While training:* `watch` says that {entry.event}.")
    if entry.effects:
        lines.append("*Brings about:* " + ", ".join(f"[{e}](#{e})" for e in entry.effects) + ".")
    if entry.remedies:
        lines.append(f"*Tried by `treat`:* {', '.join(entry.remedies)}.")
    return "\n\n".join([*lines, f"*Track record:* {entry.track_record}"]) + "\n\n"


LEDGER = """# The ledger

Every numbered statement of the four papers and what is checked of newer ones, in our own words, and how it
is tested. `bathyscope check ID`
tests one and prints verdict and numbers, `bathyscope check all` all of them. A verdict is *holds*,
*holds under* (with the extra assumption named), *violated* (with what is true instead, where that is known
and was checked), *not supported here* (an experiment of ours does not show it, which is not a refutation) or
*inapplicable* (an assumption failed, shown with its number). Every statement is tested in its most favorable
reading and in the general one; both are shown. A claim that holds and says nothing is flagged *vacuous*, one
that could not have failed *definition*: it is how the networks are built, or stands in textbooks, and its
check tests the implementation. Claims and studies that speak of the same thing are linked, and a test fails
where they contradict each other without a word.

{count} statements, of which {coded} are coded, {definitions} of these definitions.
{themes}"""


def ledger() -> str:
    """The page of all claims: statements, assumptions and tests, from the registry alone."""
    text = ""
    for theme in themes():
        rows = [claim for claim in all_claims().values() if claim.theme == theme]
        text += f"\n## {theme}\n" + "".join(_claim(claim) for claim in rows)
    coded = sum(claim.status == "coded" for claim in all_claims().values())
    definitions = sum(bool(claim.definition) for claim in all_claims().values())
    return LEDGER.format(count=len(all_claims()), coded=coded, definitions=definitions, themes=text)


def _claim(claim: Claim) -> str:
    lines = [f"\n### {claim.name}\n\n{_plain(claim.statement)}\n"]
    if claim.assumptions:
        lines.append(f"\n*Assumes:* {_plain('; '.join(claim.assumptions))}.\n")
    mark = "" if claim.status == "coded" else f"**{claim.status.capitalize()}.** "
    lines.append(f"\n*Tested:* {mark}{_plain(claim.tested)}\n")
    if claim.definition:
        lines.append(f"\n*Definition:* {claim.definition}.\n")
    if claim.undecided:
        lines.append(f"\n*Not decided:* {_plain('; '.join(claim.undecided))}.\n")
    if claim.links:
        lines.append(f"\n*See also:* {_links(claim, '')}\n")
    if {"model", "data"} & set(claim.takes):
        own = " and ".join(word for word in ("model", "data") if word in claim.takes)
        lines.append(f"\n*Takes your own:* {own}.\n")
    return "".join(lines)


def _links(claim: Claim, folder: str) -> str:
    """What speaks of the same thing, each with its page, and why the two may differ."""
    parts = []
    for link in claim.links:
        theme, _, rest = link.to.partition(".")
        anchor = f"{folder}ledger.md#{theme}{rest}"
        if link.to in all_studies():
            anchor = f"{folder}papers/{theme}-figures.md#{theme}{rest}"
        why = f" ({_plain(link.difference)})" if link.difference else ""
        parts.append(f"[{_plain(link.to)}]({anchor}){why}")
    return "; ".join(parts) + "."


STUDY_PAGE = """# Studies

Every figure and table of the papers that an experiment stands behind, as something you can run:

<!-- slow -->
```
bathyscope reproduce list
bathyscope reproduce shortcut_length.figure_4 --out studies
```

All of them take about a quarter of an hour on two cores:

<!-- not run: the better part of an hour; the tests run every study at a few steps -->
```
bathyscope reproduce all --preset quick --out studies
```

<!-- slow -->
```python
import bathyscope as bs

result = bs.studies.run("shortcut_length.figure_4", preset="quick")
result.table        # tidy, one row an observation
result.checks       # what of the paper's shape was met, each with its number
result.figure()     # a matplotlib figure
result.provenance   # settings, seeds, versions, hardware
```

Presets: `quick` and `full` are ours, the one of minutes on two cores and without a download, the other with
larger data at reduced length; `printed` has the settings that the paper prints, `cited` those of the code
that it names, where it prints none. A study has those that its paper gives, and says of every setting where
it is from. `--seeds N` repeats every run with N seeds. Every run has
its folder under `studies/runs`, named by its configuration: a study that was killed continues where it stood,
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
    notes = "".join(f"\n{_plain(note)}\n" for note in study.notes)
    return (
        f"\n### {study.name}\n\n**{study.title}.** {_plain(study.shows)}\n{notes}\n"
        f"| preset | settings |\n|---|---|\n{rows}\n{_sources(study)}"
    )


def _sources(study: Study) -> str:
    """Where every setting of the paper's preset is from."""
    if study.original is None:
        return ""
    name = "printed" if "printed" in study.presets else "cited"
    rows = "".join(
        f"| {_plain(key)} | {_value(value)} | {_plain(study.source_of(key))} |\n"
        for key, value in study.original.resolved().items()
    )
    return f"\n| setting of `{name}` | value | from |\n|---|---|---|\n{rows}"


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAPER_PAGE = """# {theme}

**{title}.** {summary}

{standing}
{pages}
{results}"""

STATEMENTS_PAGE = """# {theme}: statements

Each numbered statement of [the paper]({theme}.md) with its verdict here and what was compared.
[The ledger](../ledger.md) has their assumptions and tests.
{claims}"""

FIGURES_PAGE = """# {theme}: figures and tables

Each as it was run here, with what of the paper's shape was met. [The page of the paper]({theme}.md) has the
results in a table.
{studies}"""
RESULTS = DOCS / "results"
MARKS = {True: "✓", False: "✗", None: "·"}
OFFICIAL_ONLY = {"cifar-100", "tiny-imagenet", "imagenet"}
COSTS: dict[str, dict[str, float]] = json.loads((RESULTS / "costs.json").read_text())
"""Seconds of one core that a preset took, by study; those of presets that were not run are not in it."""


def paper(theme: str) -> str:
    """The page of one paper: what it says, how it stands, and each figure's result in a row."""
    package = importlib.import_module(papers()[theme])
    verdicts, results = published_claims(RESULTS), read_published(RESULTS)
    claims = _own_claims(theme)
    own = [study for name, study in all_studies().items() if name.startswith(f"{theme}.")]
    shown = sum(study.name in results for study in own)
    standing = f"Of {len(own)} figures and tables {shown} are shown as they were run here."
    if claims:
        counts: dict[str, int] = {}
        for claim in claims:
            word = verdicts.get(claim.name, {}).get("verdict", claim.status)
            word = f"{word} by definition" if claim.definition and word == "holds" else word
            counts[word] = counts.get(word, 0) + 1
        text = ", ".join(f"{count} {word}" for word, count in counts.items())
        standing = f"{len(claims)} statements: {text}. {standing}"
    return PAPER_PAGE.format(
        theme=theme,
        title=package.TITLE,
        summary=package.SUMMARY.replace("\n", " "),
        standing=standing,
        pages=_pages(theme),
        results=_results_table(own, results) if shown else "",
    )


def standing() -> str:
    """The page that counts what of the papers stands."""
    return standing_page.page(published_claims(RESULTS), read_published(RESULTS), _outcome, PRESETS)


def _own_claims(theme: str) -> list[Claim]:
    return [claim for claim in all_claims().values() if claim.theme == theme]


def _pages(theme: str) -> str:
    """A sentence that leads to the other pages of a paper."""
    figures = f"[Figures and tables]({theme}-figures.md) are on a page of their own"
    if hasattr(importlib.import_module(papers()[theme]), "NUMBERED"):
        figures = f"[How the four papers stand](standing.md) has the counts. {figures}"
    if not _own_claims(theme):
        return f"\n{figures}."
    return f"\n{figures}, and so are [the statements]({theme}-statements.md)."


def statements(theme: str) -> str:
    """The statements of one paper with their verdicts."""
    verdicts = published_claims(RESULTS)
    text = "".join(_verdict(c, verdicts.get(c.name)) for c in _own_claims(theme))
    return STATEMENTS_PAGE.format(theme=theme, claims=text)


def figures(theme: str) -> str:
    """The figures and tables of one paper, as they were published."""
    results = read_published(RESULTS)
    own = [study for name, study in all_studies().items() if name.startswith(f"{theme}.")]
    text = "".join(_result(study, results.get(study.name, {})) for study in own)
    return FIGURES_PAGE.format(theme=theme, studies=text)


def _verdict(claim: Claim, result: dict[str, Any] | None) -> str:
    """A claim: what it says, the verdict, and what was compared."""
    word = claim.status if claim.measure is None else "not checked"
    lines: list[tuple[str, str]] = []
    if result is not None:
        word = result["verdict"] + (", vacuously" if result["vacuous"] else "")
        word += ", by definition" if claim.definition and word == "holds" else ""
        if result["extra_assumption"]:
            lines.append(("Under", f"{result['extra_assumption']}."))
        if result["corrected"]:
            lines.append(("Instead", f"{result['corrected']}."))
        failed = [a["statement"] for a in result["assumptions"] if not a["holds"]]
        if failed:
            lines.append(("Failed", f"{'; '.join(failed)}."))
        readings = (("Most favorable reading", "under"), ("As printed", "printed"))
        for label, group in (*readings, ("Stricter reading", "strict")):
            if group in result["relations"]:
                lines.append((label, _compared(result["relations"][group])))
    else:
        lines.append(("Tested", claim.tested))
    if claim.undecided:
        lines.append(("Not decided", f"{'; '.join(claim.undecided)}."))
    formula = f"\n\\[{claim.formula}\\]\n" if claim.formula else ""
    text = "\n\n".join(f"*{label}:* {_plain(line)}" for label, line in lines)
    text += f"\n\n*See also:* {_links(claim, '../')}" if claim.links else ""
    return f"\n## {claim.number}: {word}\n\n{_plain(claim.statement)}\n{formula}\n{text}\n"


def _compared(relations: list[dict[str, Any]]) -> str:
    rows = [
        f"{'✓' if r['holds'] else '✗'} {r['what']}: {r['left']} {r['sense']} {r['right']}"
        for r in relations[:4]
    ]
    return "; ".join(rows) + (f" (and {len(relations) - 4} more)." if len(relations) > 4 else ".")


def _results_table(own: list[Study], results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """One row a study: reproduced, contradicted at this scale or unresolved, and why."""
    rows, counts, evidence = "", dict.fromkeys(OUTCOMES, 0), set()
    for study in own:
        shown = results.get(study.name, {})
        if not shown:
            rows += f"| {study.name} | not run | |\n"
            continue
        preset = max(shown, key=PRESETS.index)
        word, reason = _outcome(shown[preset]["checks"])
        reason += f" {study.unmet}" if study.unmet and word != "reproduced" else ""
        reason += f" Not decided: {'; '.join(study.undecided)}." if study.undecided else ""
        counts[word] += 1
        evidence.add(frozenset(_runs(study, preset)))
        theme, _, rest = study.name.partition(".")
        anchor = f"{theme}-figures.md#{theme}{rest}"
        other = _SUBSTITUTE.search(shown[preset]["title"])
        run = f"`{preset}`, {other[1]} instead" if other else f"`{preset}`"
        rows += f"| [{_plain(study.name)}]({anchor}) | {word} ({run}) | {_plain(reason)} |\n"
    total = ", ".join(f"{count} {word}" for word, count in counts.items())
    sets = "one set" if len(evidence) == 1 else f"{len(evidence)} sets"
    return (
        f"\n## Results\n\n{total}; from {sets} of runs, for studies that look at the same runs are not "
        f"further evidence. Each by its longest preset that was run, with the data where they are not the "
        f"paper's.\n\n"
        f"| study | result | reason |\n|---|---|---|\n{rows}"
    )


_SUBSTITUTE = re.compile(r"\[substitute: (.+)\]")
"""In the title of a result that other data than the paper's stand behind."""
OUTCOMES = ("reproduced", "contradicted at this scale", "unresolved")


def _outcome(checks: list[dict[str, Any]]) -> tuple[str, str]:
    """What the judged checks say, and the one that decides it, in a sentence."""
    judged = [check for check in checks if check["passed"] is not None]
    failed = [check for check in judged if not check["passed"]]
    if not judged:
        return "unresolved", "No check judges what is printed; numbers alone are reported."
    if not failed:
        return "reproduced", f"{_first_part(judged[-1])}."
    unclear = [check for check in failed if _within_error(check["value"])]
    if len(unclear) == len(failed):
        return "unresolved", f"{_first_part(failed[0])}: {_power(failed[0]['value'])}."
    against = next(check for check in failed if check not in unclear)
    return "contradicted at this scale", f"Not so: {_first_part(against)}."


def _first_part(check: dict[str, Any]) -> str:
    return f"{check['statement'].split(';')[0]} ({check['value']})"


_WITH_ERROR = re.compile(r"(-?\d[\d.]*) ± (\d[\d.]*)")


_ALL_OF = re.compile(r"(\d+) of (\d+)\b")
"""Seeds or pairs in which one of two comes first: where they are alike all of n do with probability 2⁻ⁿ."""


def _within_error(value: object) -> bool:
    """Whether a number with its error is none that two errors would have shown to be of another sign."""
    pairs = [(float(a), float(b)) for a, b in _WITH_ERROR.findall(str(value))]
    return bool(pairs) and all(number > -2 * error for number, error in pairs)


def _power(value: object) -> str:
    """What a check could have seen: twice its largest standard error, or how likely chance gives as many."""
    errors = [float(error) for _, error in _WITH_ERROR.findall(str(value))]
    if errors:
        return f"a difference of {2 * max(errors):.2g} would have been seen"
    every = _ALL_OF.match(str(value))
    if every and every[1] == every[2]:
        return f"by chance alone with a probability of {2.0 ** -int(every[1]):.2g}"
    return ""


def _unknown_power(result: dict[str, Any]) -> str:
    """What cannot be said of how small a difference the checks would have seen."""
    judged = [check for check in result["checks"] if check["passed"] is not None]
    without = [check for check in judged if not _power(check["value"])]
    if not without:
        return ""
    which = "" if len(without) == len(judged) else "other "
    seeds = result["provenance"]["seeds"]
    if not seeds:
        return f" The {which}checks are of computations into which no chance enters."
    if len(seeds) == 1:
        return f" One seed: what the {which}checks would have seen is not known."
    return f" The {which}checks read means or extremes of {len(seeds)} seeds, without an error."


def _runs(study: Study, preset: str) -> set[str]:
    """The folders of its runs, by which studies are seen to share them."""
    return {task.folder_name() for task in study.tasks(study.presets[preset])}


def _sharing(study: Study, preset: str) -> list[str]:
    """The studies of the paper that look at these very runs, or at some of them."""
    theme, own = study.name.partition(".")[0], _runs(study, preset)
    others = [s for n, s in all_studies().items() if n.startswith(f"{theme}.") and s is not study]
    return [s.name for s in others if preset in s.presets and own & _runs(s, preset)]


def _result(study: Study, result: dict[str, dict[str, Any]]) -> str:
    """A study: the figure of every published preset, what was met, and where it comes from."""
    lines = [f"\n## {study.name}\n\n**{study.title}.** {_plain(study.shows)}\n"]
    if study.printed:
        lines.append("\nThe paper prints:\n\n" + "".join(f"- {_plain(p)}\n" for p in study.printed))
    for preset in PRESETS:
        if preset in result:
            lines.append(_published(study, preset, result[preset]))
    notes = " ".join(study.notes)
    if notes:
        lines.append(f"\n*To know:* {_plain(notes)}\n")
    if study.unmet:
        lines.append(f"\n*Why not met:* {_plain(study.unmet)}\n")
    if study.undecided:
        lines.append("\n*Printed there, and decided by no check:* ")
        lines.append("; ".join(_plain(sentence) for sentence in study.undecided) + ".\n")
    theme = study.name.partition(".")[0]
    if (DOCS / "figures" / f"{study.name.replace('.', '_')}.png").is_file():
        lines.append(f"\nMore on it is on [a page of its own](../{theme}.md).\n")
    longest = max((PRESETS.index(preset) for preset in result), default=-1)
    missing = [p for p in PRESETS[longest + 1 :] if p in study.presets]
    if missing:
        reasons = "; ".join(f"`{preset}` ({_why(study, preset)})" for preset in missing)
        lines.append(f"\n*Not run for this page:* {reasons}.\n")
    return "".join(lines)


def _why(study: Study, preset: str) -> str:
    """Why a preset was not run: its data, its cost as far as it was measured, or only its length."""
    settings = study.presets[preset]
    unobtainable = sorted(settings.data_names() & OFFICIAL_ONLY)
    if unobtainable:
        return f"needs {' and '.join(unobtainable)}, which no package registry has"
    steps = sum(_steps(task) for task in study.tasks(settings))
    done = max((p for p in COSTS.get(study.name, {})), key=PRESETS.index, default=None)
    if steps and done is not None:
        before = sum(_steps(task) for task in study.tasks(study.presets[done]))
        more = f"{steps / before:,.0f}"
        return f"{more} times as many training steps as `{done}`, of larger batches or networks"
    if done is not None:
        more = len(study.tasks(settings)) / max(1, len(study.tasks(study.presets[done])))
        count = f"{more:.1f} times as many" if more > 1.05 else "as many"
        return f"{count} computations as `{done}`, of larger sizes"
    return "not run yet"


def _steps(task: Any) -> int:
    """Training steps of a task; 0 where it trains nothing or its data cannot be counted."""
    known = hasattr(task, "epochs") and hasattr(task, "num_train") and task.data in CATALOG
    if not known:
        return 0
    samples = task.num_train or data_entry(task.data).num_train
    size = getattr(task, "batch_size", None) or samples
    return int(task.epochs * -(-samples // size))


def _duration(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > 240 else f"{seconds:.0f} seconds"


def _published(study: Study, preset: str, result: dict[str, Any]) -> str:
    name, origin = study.name, result["provenance"]
    checks = "".join(
        f"- {MARKS[c['passed']]} {_plain(c['statement'])}: **{_plain(c['value'])}**{_seen(c)}"
        f"{_decides(study, c)}\n"
        for c in result["checks"]
    )
    shared = _sharing(study, preset) if preset in study.presets else []
    also = f" The same runs, or some of them, are behind {_listed(shared)}." if shared else ""
    commits = ", ".join(commit[:10] for commit in origin["commits"] if commit) or "unknown"
    time = f"{_duration(origin['seconds'])} by the clock of a busy machine"
    if origin.get("cpu_seconds"):
        time = f"{_duration(origin['cpu_seconds'])} of one core"
    settings = ", ".join(f"{k} {_value(v)}" for k, v in origin["settings"].items())
    machines = ", ".join(_machine(h) for h in origin.get("hardware", [])) or "unknown"
    drawn = " (seed 0 is drawn)" if len(origin["seeds"]) > 1 and name in ONE_SEED_DRAWN else ""
    runs = "1 run" if origin["num_runs"] == 1 else f"{origin['num_runs']} runs"
    also += _unknown_power(result)
    return (
        f"\n![{result['title']}](../results/{name}.{preset}.png)\n\n{checks}\n"
        f"*{_plain(result['title'])}. {IN_WORDS[preset]} (`{preset}`): {_plain(settings)}. {runs}, "
        f"seeds {', '.join(map(str, origin['seeds'])) or 'none'}{drawn}, {time} ({_plain(machines)}); "
        f"commit {commits}; torch {origin['versions'].get('torch', '?')}.{also}*\n"
    )


ONE_SEED_DRAWN = {
    *(f"singularity.figure_{k}" for k in (5, 6, 7, 8, 9, 10, 11, 13)),
    *(f"singularity.figure_a{k}" for k in range(1, 7)),
    "singularity.layer_deletion",
    "norm_preservation.figure_3",
}
"""Studies whose published figures show the first seed; their checks read all of them."""
IN_WORDS = {
    "quick": "Small settings of ours",
    "full": "Larger settings of ours",
    "cited": "The settings of the code that the paper names",
    "printed": "The settings that the paper prints",
}


def _decides(study: Study, check: dict[str, Any]) -> str:
    """What of the paper a judged check decides."""
    says = study.decided_by(check["statement"]) if check["passed"] is not None else ""
    return f"<br>*Decides, {_plain(says)}.*" if says else ""


def _seen(check: dict[str, Any]) -> str:
    """What a judged check could have seen, where its number has an error."""
    power = _power(check["value"]) if check["passed"] is not None else ""
    return f" ({power})" if power else ""


def _listed(names: list[str]) -> str:
    return ", ".join(name.partition(".")[2].replace("_", " ") for name in names)


def _machine(hardware: dict[str, Any]) -> str:
    cores, threads = hardware.get("cores", "?"), hardware.get("threads", 1)
    used = "one thread" if threads == 1 else f"{threads} threads"
    device, machine = hardware.get("device") or "no accelerator", hardware.get("machine", "?")
    return f"{device}, {used} on {cores} cores of {machine}"


def _plain(text: object) -> str:
    """Text in which Markdown finds no sign of its own but code, and W_i, W_{L+1}, W^l stand as in print."""
    parts = str(text).split("`")
    parts[::2] = [_outside_code(part) for part in parts[::2]]
    return "`".join(parts)


def _outside_code(text: str) -> str:
    result = text.replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\*_[]|":
        result = result.replace(sign, "\\" + sign)
    result = _LOWERED.sub(lambda m: f"{m[1]}<sub>{m[2].strip('{}')}</sub>", result)
    return _RAISED.sub(lambda m: f"<sup>{m[1].strip('{}')}</sup>", result)


_LOWERED = re.compile(
    r"((?<![A-Za-z0-9])[^\W\d]|[∏‖)])\\_(\{[^}]+\}|[A-Za-z0-9ρ]{1,4}(?![A-Za-z0-9]|\\_))"
)
"""Behind a letter that stands alone, unlike those of num_train, a norm or a bracket."""
_RAISED = re.compile(r"\^(\{[^}]+\}|\w+)")


PAGES = (
    {"findings.md": findings, "ledger.md": ledger, "studies.md": studies}
    | {f"papers/{theme}.md": partial(paper, theme) for theme in papers()}
    | {f"papers/{theme}-figures.md": partial(figures, theme) for theme in papers()}
    | {
        f"papers/{theme}-statements.md": partial(statements, theme)
        for theme in papers()
        if _own_claims(theme)
    }
    | {"gallery.md": partial(reference_pages.gallery, RESULTS)}
    | {"forecast-record.md": forecast_page.page}
    | {"papers/standing.md": standing}
)
"""Pages that are kept in the repository."""

REFERENCE = reference_pages.PAGES
"""Pages that change with every public name, and are made with the site."""


if __name__ == "__main__":
    for name, page in (PAGES | REFERENCE).items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(page())
    listings.FILE.write_text(listings.listings_text(), encoding="utf-8")
