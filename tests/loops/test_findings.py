"""The true cause of each program is found in its record, and nothing is said of what is healthy."""

import importlib
from collections.abc import Callable

import pytest
import torch

from bathyscope.core.records import Finding, Severity
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings
from tests.loops import healthy, programs

CAUSES = {
    "lo02": "eval-mode",
    "lo04": "zero-learning-rate",
    "lo06": "plateau-mode",
    "lo08": "clip-before-backward",
    "lo10": "accumulation-not-divided",
    "lo12": "weights-written",
    "lo14": "copy-never-moves",
    "lo16": "few-distinct-samples",
    "lo18": "classes-in-order",
    "st16": "unreached-parameters",
    "st18": "rounded-updates",
    "st20": "half-underflow",
    "st34": "pairs-shuffled-apart",
    "tc02": "gradients-not-cleared",
    "tc06": "eval-mode",
    "tc08": "wrapped-parameters-replaced",
    "tc10": "dropout-in-eval",
    "tc12": "wrapper-bypassed",
    "tc14": "unwritten-updates",
    "tc16": "loaded-then-overwritten",
}
"""Programs whose fault a loop shows; those of the others are in the model, the batch or the loss."""

FAST = ("lo04", "lo16", "tc02", "tc14")
FAST_HEALTHY = ("accumulated", "warmup_from_zero", "averaged_and_swapped")


def findings_of(loop: Callable[[], object]) -> tuple[Finding, ...]:
    torch.manual_seed(0)
    with Ledger() as ledger:
        loop()
    assert not ledger.record.notes
    return loop_findings(ledger.record)


def trained(name: str, *, fault: bool) -> tuple[Finding, ...]:
    train = importlib.import_module(f"tests.loops.programs.{name}").train
    return findings_of(lambda: train(fault, 0))


def severe(findings: tuple[Finding, ...]) -> list[str]:
    return [f.code for f in findings if f.severity is not Severity.NOTE]


def marked(names, fast):
    return [n if n in fast else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", marked(CAUSES, FAST))
def test_the_cause_is_among_the_first_three(name):
    assert CAUSES[name] in [f.code for f in trained(name, fault=True)[:3]]


@pytest.mark.parametrize("name", marked(programs.NAMES, FAST))
def test_nothing_is_said_of_the_corrected_twin(name):
    assert severe(trained(name, fault=False)) == []


@pytest.mark.parametrize("name", marked(healthy.LOOPS, FAST_HEALTHY))
def test_nothing_is_said_of_a_healthy_loop(name):
    assert severe(findings_of(healthy.LOOPS[name])) == []
