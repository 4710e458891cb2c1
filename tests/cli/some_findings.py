"""Findings of every severity, one with a hostile title, for the tests of what other tools read."""

from bathyscope.core.records import Finding, RootCause, Severity
from bathyscope.report.ci_formats import Findings

HOSTILE = "50 % ::error::x,\n|<b>\x1b[2J\x00"


def finding(code, severity, blocks=("body.1",), title="Too large"):
    return Finding(
        code=code, severity=severity, title=title, blocks=blocks, evidence={}, why="It grows.",
        source="a paper", remedy="Lower it.",
    )  # fmt: skip


def root(code, severity, effects, **options):
    plain = finding(code, severity, **options)
    return RootCause(**{n: getattr(plain, n) for n in Finding.__slots__}, effects=tuple(effects))


RESULT = Findings(
    title="net",
    findings=[
        root(
            "exploding-gradient",
            Severity.PROBLEM,
            [
                finding("exploding-activations", Severity.PROBLEM, blocks=tuple("abcdef")),
                finding("high-rate", Severity.WARNING, blocks=()),
            ],
        ),
        finding("exploding-gradient", Severity.PROBLEM, blocks=("body.7",)),
        finding("high-rate", Severity.WARNING, blocks=()),
        finding("few-samples", Severity.NOTE, title=HOSTILE),
    ],
    passed=["dead-units"],
    not_checked={"update-size": "no optimizer was given"},
    file="mine.py",
    line=3,
)
