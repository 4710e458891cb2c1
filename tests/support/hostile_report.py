"""A report whose every string wants to be markup."""

import dataclasses

from bathyscope.core.records import Block, Finding, Measurement, Severity
from bathyscope.report import Judgment, Report

HOSTILE = """<script>window.pwned=1</script>"'&amp;<img src=x onerror=window.pwned=1>${1}|%{x}"""


def hostile() -> Report:
    """A report whose every string wants to be markup."""
    bad = HOSTILE
    block = Block(index=0, name=bad, end=bad, kind=bad, num_parameters=3)
    other = Block(index=1, name="b", end="b", kind="k", call=1)
    measured = (
        Measurement(
            name="gradients",
            blocks=(block, other),
            columns={"ratio": (1.0, 2.0), bad: (1.0, 3.0), "text": (bad, None)},
            settings={bad: bad, "list": [1, bad]},
            notes=(bad,),
        ),
        Measurement(name=bad, blocks=(block,), columns={bad: (2.0,), "norm": (1.0,)}),
    )
    finding = Finding(
        code=bad,
        severity=Severity.WARNING,
        title=bad,
        blocks=(bad, "b[1]", bad, bad, bad, bad),
        evidence={bad: bad},
        why=bad,
        source=bad,
        remedy=bad,
    )
    inner = Report(
        title=bad,
        verdict=Judgment(level="warning", sentence=bad),
        blocks=(block, other),
        measurements=measured,
        findings=(finding,),
        provenance={bad: bad},
        curves={bad: ((0, 1.0), (1, 2.0))},
        notes=(bad,),
    )
    return dataclasses.replace(inner, before=inner, stages=((bad, inner), ("later", inner)))
