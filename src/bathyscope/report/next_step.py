"""The one thing to do next, as the page says it first."""

from dataclasses import dataclass

from bathyscope.core.records import Severity
from bathyscope.report.record import Report

TREATABLE = frozenset({"activation", "architecture", "initialisation", "learning-rate"})
"""Causes for which `treat` has recipes."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do, and the section of the page that has it; empty where none does."""

    text: str
    section: str = ""


def next_step(report: Report) -> NextStep:
    """What follows from the verdict, the forecast and the treatment.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> next_step(Report(title="mlp", verdict=clean, blocks=())).text
        'Train it. bs.watch(model) around your loop notes what happens on the way, and where.'
        >>> next_step(Report(title="mlp", verdict=clean, blocks=(), code="lr = 0.01")).section
        'code'
    """
    if report.code:
        return NextStep(
            "Take the change into your own code: it stands below, ready to copy.", "code"
        )
    first = report.findings[0] if report.findings else None
    if first is not None and first.severity is not Severity.NOTE:
        tries = " bathyscope treat tries this and more on copies." * (first.cause in TREATABLE)
        if first.remedy is None:
            return NextStep(f"Look at the first finding; no remedy is known.{tries}", "findings")
        return NextStep(f"{first.remedy}{tries}", "findings")
    verdict = report.forecast.verdict if report.forecast is not None else "trains"
    if verdict == "fails":
        return NextStep(
            "Nothing that was measured explains the forecast: let bathyscope treat look for a change "
            "with which it trains."
        )
    if verdict == "undecided":
        return NextStep("Train it for a few hundred steps under bs.watch(model), and look again.")
    return NextStep(
        "Train it. bs.watch(model) around your loop notes what happens on the way, and where."
    )
