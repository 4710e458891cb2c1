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

    Example:
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
    """Which findings are gone, still there or new, where an earlier state is known."""
    if report.before is None:
        return ""
    old = {finding.code: finding for finding in report.before.findings}
    new = {finding.code: finding for finding in report.findings}
    told = [
        ("gone", [f for code, f in old.items() if code not in new]),
        ("still there", [f for code, f in new.items() if code in old]),
        ("new", [f for code, f in new.items() if code not in old]),
    ]
    items = [
        f'<li><span class="change">{what}</span> <span class="severity {finding.severity}">'
        f"{finding.severity}</span> {escape(finding.title)} <code>{escape(finding.code)}</code></li>"
        for what, group in told
        for finding in group
    ]
    return f'<ul class="changes">{joined(items)}</ul>' if items else ""


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
            f'<div class="where">{_where(finding.blocks)}</div>',
            number_list(evidence, style="evidence"),
            f'<p class="why">{escape(finding.why)}{source}</p>',
            f'<p class="remedy"><b>What helps</b> {remedy}</p>',
            "</article>",
        )
    )


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
