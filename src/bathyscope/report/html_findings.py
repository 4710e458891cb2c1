"""The verdict and the findings of the page."""

from collections import Counter
from collections.abc import Sequence

from bathyscope.core.records import Block, Finding
from bathyscope.report.html_strips import locator
from bathyscope.report.html_text import escape, joined, number_list
from bathyscope.report.moments import moments
from bathyscope.report.numbers import counted, number
from bathyscope.report.record import Report

_SHOWN_BLOCKS = 4


def verdict(report: Report, *, heading: str = "") -> str:
    """One verdict: the level as a word, the sentence, the counts."""
    level = report.verdict.level
    head = f'<p class="when">{escape(heading)}</p>' if heading else ""
    return (
        f'<div class="verdict {level}">{head}'
        f'<p class="level">{level}</p>'
        f'<p class="sentence">{escape(report.verdict.sentence)}</p>'
        f'<p class="facts">{escape(facts(report))}</p></div>'
    )


def facts(report: Report) -> str:
    """Blocks, parameters and findings, counted.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> facts(Report(title="mlp", verdict=clean, blocks=()))
        '0 blocks · no findings'
    """
    parts = [counted(len(report.blocks), "block")]
    parameters = sum(block.num_parameters for block in report.blocks)
    if parameters:
        parts[0] += f" with {number(parameters)} parameters"
    count = Counter(str(finding.severity) for finding in report.findings)
    told = [counted(count[s], s) for s in ("problem", "warning", "note") if count[s]]
    return " · ".join([*parts, ", ".join(told) or "no findings"])


def verdicts(report: Report) -> str:
    """The verdict; with an earlier state or stages, theirs side by side in the order of time."""
    states = moments(report)
    if len(states) == 1:
        return verdict(report)
    cards = [verdict(state, heading=label) for label, state in states]
    # after a treatment the last state is the report; stages are told beside the verdict on them all
    first = verdict(report) if report.stages else ""
    return f'{first}<div class="side-by-side">{joined(cards)}</div>'


def findings(report: Report) -> str:
    """The ranked findings, gravest first as they were given."""
    if not report.findings:
        return '<p class="none">There are no findings.</p>'
    return joined(_finding(finding, report.blocks) for finding in report.findings)


def changes(report: Report) -> str:
    """Which kinds of finding are gone, changed, still there or new since the earlier state."""
    if report.before is None:
        return ""
    old, new = _gravest(report.before.findings), _gravest(report.findings)
    items = [
        f'<li><span class="change">{_change(old.get(code), new.get(code))}</span> '
        f'<span class="severity {finding.severity}">{finding.severity}</span> '
        f"<span>{escape(finding.title)} <code>{escape(code)}</code></span></li>"
        for code, finding in (old | new).items()
    ]
    return f'<ul class="changes">{joined(items)}</ul>' if items else ""


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


def _finding(finding: Finding, blocks: Sequence[Block]) -> str:
    evidence = [(k.replace("_", " "), number(v)) for k, v in finding.evidence.items()]
    remedy = escape(finding.remedy) if finding.remedy else "No remedy is known."
    source = f" <cite>{escape(finding.source)}</cite>" if finding.source else ""
    return joined(
        (
            f'<article class="finding {finding.severity}">',
            f'<h3><span class="severity {finding.severity}">{finding.severity}</span> '
            f"{escape(finding.title)} <code>{escape(finding.code)}</code></h3>",
            locator(blocks, finding),
            f'<div class="cause">cause: {escape(finding.cause)}{_seen(finding)}</div>',
            f'<div class="where">{_where(finding.blocks)}</div>',
            number_list(evidence, style="evidence"),
            f'<p class="why">{escape(finding.why)}{source}</p>',
            f'<p class="remedy"><b>What helps</b> {remedy}</p>',
            "</article>",
        )
    )


def _seen(finding: Finding) -> str:
    return f", first seen after {counted(finding.step, 'step')}" if finding.step else ""


def _where(names: tuple[str, ...]) -> str:
    if not names:
        return "the network as a whole"

    def listed(some: Sequence[str]) -> str:
        return ", ".join(f"<code>{escape(name)}</code>" for name in some)

    if len(names) <= _SHOWN_BLOCKS:
        return listed(names)
    half = _SHOWN_BLOCKS // 2
    short = f"{listed(names[:half])} … {listed(names[-half:])}"
    return (
        f"{short} <details><summary>all {counted(len(names), 'block')}</summary>"
        f"{listed(names)}</details>"
    )
