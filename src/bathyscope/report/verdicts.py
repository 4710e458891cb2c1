"""The verdict and the findings, as the page shows them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.report.numbers import amount, number
from bathyscope.report.record import Level, Report
from bathyscope.report.strips import Drawing, draw


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """The level as a word, the sentence, the counts."""

    level: Level
    sentence: str
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """A finding with its blocks drawn over depth and its evidence in words."""

    severity: Severity
    title: str
    code: str
    drawing: Drawing
    blocks: Sequence[str]
    evidence: Sequence[tuple[str, str]]
    cause: str
    why: str
    source: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class FindingChange:
    """What became of a kind of finding: gone, new, graver, milder, still there."""

    what: str
    severity: Severity
    title: str
    code: str


def verdict_card(report: Report) -> VerdictCard:
    """The verdict on one state."""
    return VerdictCard(report.verdict.level, report.verdict.sentence, facts(report))


def facts(report: Report) -> str:
    """Blocks, parameters and findings, amount.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> facts(Report(title="mlp", verdict=clean, blocks=()))
        '0 blocks · no findings'
    """
    parts = [report.extent]
    parameters = sum(block.num_parameters for block in report.blocks)
    if parameters:
        parts[0] += f" with {number(parameters)} parameters"
    count = Counter(str(finding.severity) for finding in report.findings)
    told = [amount(count[s], s) for s in ("problem", "warning", "note") if count[s]]
    return " · ".join([*parts, ", ".join(told) or "no findings"])


def finding_views(report: Report) -> list[FindingView]:
    """The ranked findings, gravest first as they were given."""
    return [_view(finding, report.blocks) for finding in report.findings]


def _view(finding: Finding, blocks: Sequence[Block]) -> FindingView:
    named = set(finding.blocks)
    return FindingView(
        severity=finding.severity,
        title=finding.title,
        code=finding.code,
        drawing=draw(["here" if block.label in named else "" for block in blocks]),
        blocks=finding.blocks,
        evidence=[(k.replace("_", " "), number(v)) for k, v in finding.evidence.items()],
        cause=finding.cause,
        why=finding.why,
        source=finding.source,
        remedy=finding.remedy,
    )


def changes(report: Report) -> list[FindingChange]:
    """Which kinds of finding are gone, changed, still there or new since the earlier state."""
    if report.before is None:
        return []
    old, new = _gravest(report.before.findings), _gravest(report.findings)
    return [
        FindingChange(_change(old.get(code), new.get(code)), finding.severity, finding.title, code)
        for code, finding in (old | new).items()
    ]


def _gravest(found: Sequence[Finding]) -> dict[str, Finding]:
    """The gravest finding of each code; blocks of one kind may be told apart by severity."""
    return {f.code: f for f in sorted(found, key=lambda f: f.severity.rank)}


def _change(old: Finding | None, new: Finding | None) -> str:
    if new is None:
        return "gone"
    if old is None:
        return "new"
    step = new.severity.rank - old.severity.rank
    return "graver" if step > 0 else "milder" if step < 0 else "still there"
