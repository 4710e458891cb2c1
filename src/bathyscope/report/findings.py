"""The verdict, the root causes with their effects, and the one thing to do, as the page shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bathyscope.core.records import Block, Finding, RootCause, Severity
from bathyscope.report.numbers import counts, number
from bathyscope.report.record import Level, Report
from bathyscope.report.svg import Drawing, strip

TREATABLE = frozenset({"activation", "architecture", "initialization", "learning-rate"})
"""Causes for which `treat` has recipes."""

_TREAT = (
    "import bathyscope as bs\n"
    "# loader: a DataLoader, or a list of batches\n"
    "diagnosis = bs.diagnose(model, loader, optimizer=optimizer)\n"
    "treatment = bs.treat(model, diagnosis, batches=loader)\n"
    "print(treatment.outcome)\n"
    "print(treatment.code())"
)
_WATCH = "with bs.watch(model) as watch:\n    train(model)  # your own loop, unchanged"


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """The level as a word, the sentence, the counts."""

    level: Level
    sentence: str
    facts: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do in a sentence, and code to copy."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """A finding with its blocks drawn over depth, its evidence in words, and its effects."""

    severity: Severity
    title: str
    code: str
    drawing: Drawing
    blocks: Sequence[str]
    block_range: str
    evidence: Sequence[tuple[str, str]]
    cause: str
    why: str
    source: str
    remedy: str | None
    effects: "Sequence[FindingView]" = ()


@dataclass(frozen=True, slots=True)
class FindingChange:
    """What became of a finding: gone, new, more severe, milder, still there."""

    what: str
    severity: Severity
    title: str
    code: str


def verdict_card(report: Report) -> VerdictCard:
    """The verdict on one state; of a treatment, what came of it."""
    level, is_treated = report.verdict.level, bool(report.before and report.code)
    return VerdictCard(
        level, report.verdict.sentence, facts(report), "treated" if is_treated else level
    )


def facts(report: Report) -> str:
    """Blocks, parameters, root causes by severity and their effects, counted.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> facts(Report(title="mlp", verdict=clean, blocks=()))
        'no findings'
    """
    parts = [report.extent] if report.blocks else []
    parameters = sum(block.num_parameters for block in report.blocks)
    if parameters:
        parts[0] += f" with {number(parameters)} parameters"
    return " · ".join([*parts, counts(report.roots) if report.roots else "no findings"])


def setup(report: Report) -> str:
    """Data, optimizer, learning rate, batch, mode and device in one line.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> setup(Report(title="mlp", verdict=clean, blocks=(), provenance={"batch": "64 × 8"}))
        'batch 64 × 8'
    """
    known = dict(report.provenance)
    updates = next((dict(m.settings) for m in report.measurements if m.name == "updates"), {})
    rates = updates.get("learning_rates")
    optimizer = known.get("optimizer", updates.get("optimizer"))
    rate = known.get("learning_rate")
    if rate is None and isinstance(rates, (list, tuple)):
        rate = ", ".join(dict.fromkeys(number(one) for one in rates))
    parts = [
        number(known["data"]) if known.get("data") is not None else "",
        number(optimizer) if isinstance(optimizer, str) else "",
        f"learning rate {number(rate)}" if rate else "",
        f"batch {known['batch']}" if "batch" in known else "",
        f"{known['mode']} mode" if "mode" in known else "",
        " on ".join(str(known[name]) for name in ("dtype", "device") if name in known),
    ]
    return " · ".join(part for part in parts if part)


def fix(report: Report) -> Fix:
    """The one thing that follows from the verdict, the forecast and the treatment.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> fix(Report(title="mlp", verdict=clean, blocks=())).text
        'Train it; bs.watch(model) around your loop records what happens on the way, and where.'
        >>> fix(Report(title="mlp", verdict=clean, blocks=(), code="lr = 0.01")).code
        'lr = 0.01'
    """
    if report.code:
        return Fix("Take the change into your own code.", report.code)
    first = report.findings[0] if report.findings else None
    if first is not None and first.severity is not Severity.NOTE:
        treatable = first.cause in TREATABLE
        tries = " bs.treat tries this and more on copies." * treatable
        text = first.remedy or "Look at the first finding; no remedy is known."
        return Fix(f"{text}{tries}", _TREAT if treatable else "")
    verdict = report.forecast.verdict if report.forecast is not None else "trains"
    if verdict == "fails":
        return Fix(
            "Nothing that was measured explains the forecast: let bs.treat search for a change with "
            "which it trains.",
            _TREAT,
        )
    if verdict == "undecided":
        return Fix("Train it for a few hundred steps under bs.watch, and look again.", _WATCH)
    return Fix(
        "Train it; bs.watch(model) around your loop records what happens on the way, and where.",
        _WATCH,
    )


def finding_views(report: Report) -> list[FindingView]:
    """The root causes, most severe first, each with its effects."""
    return [finding_view(root, report.blocks) for root in report.roots]


def finding_view(finding: Finding, blocks: Sequence[Block]) -> FindingView:
    """One finding and, of a root cause, its effects."""
    named = set(finding.blocks)
    effects = finding.effects if isinstance(finding, RootCause) else ()
    return FindingView(
        severity=finding.severity,
        title=finding.title,
        code=finding.code,
        drawing=strip(["here" if block.label in named else "" for block in blocks]),
        blocks=finding.blocks,
        block_range=finding.block_range,
        evidence=[
            (k.replace("_", " "), number(v))
            for k, v in finding.evidence.items()
            if not (finding.block_range and k in ("first_block", "last_block"))
        ],
        cause=finding.cause,
        why=finding.why,
        source=finding.source,
        remedy=finding.remedy,
        effects=[finding_view(effect, blocks) for effect in effects],
    )


def not_checked(report: Report) -> list[tuple[str, list[str]]]:
    """Each reason for which checks could not be made, with their codes."""
    return list(_by_reason(report.not_checked).items())


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for code, reason in reasons.items():
        result.setdefault(reason, []).append(code)
    return result


def changes(report: Report) -> list[FindingChange]:
    """Which findings are gone, changed, still there or new since the earlier state."""
    if report.before is None:
        return []
    old, new = _most_severe(report.before.findings), _most_severe(report.findings)
    return [
        FindingChange(_change(old.get(code), new.get(code)), finding.severity, finding.title, code)
        for code, finding in (old | new).items()
    ]


def _most_severe(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The most severe finding of each code; blocks of one code may differ by severity."""
    return {f.code: f for f in sorted(findings, key=lambda f: f.severity.rank)}


def _change(old: Finding | None, new: Finding | None) -> str:
    if new is None:
        return "gone"
    if old is None:
        return "new"
    step = new.severity.rank - old.severity.rank
    return "more severe" if step > 0 else "milder" if step < 0 else "still there"
