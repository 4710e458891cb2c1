"""What is found in a loop, as the tests of this folder ask for it."""

from collections.abc import Callable

import pytest
import torch

from bathyscope.core.records import RootCause, Severity
from bathyscope.diagnosis.loop import diagnose_loop
from bathyscope.recorder.ledger import Ledger


def findings_of(loop: Callable[[], object]) -> tuple[RootCause, ...]:
    torch.manual_seed(0)
    with Ledger(copies_first_step=True, most_steps=200) as ledger:
        loop()
    assert not ledger.record.notes
    return diagnose_loop(ledger.record, ledger.first_step, ledger.later_steps).roots


def problems(findings: tuple[RootCause, ...]) -> list[str]:
    return [f.code for f in findings if f.severity is Severity.PROBLEM]


def severe(findings: tuple[RootCause, ...]) -> list[str]:
    return [f.code for f in findings if f.severity is not Severity.NOTE]


def marked(names, fast):
    return [n if n in fast else pytest.param(n, marks=pytest.mark.slow) for n in names]
