"""Fifteen real bugs, faulty and corrected: a problem, a true cause among the first three findings.

The rules were tuned on these subjects; other ones, held back, are scored in `test_held_out_bugs.py`.
"""

import pytest
import torch

from bathyscope.core import Severity
from tests.diagnosis.real_bugs import CORRECTED, FAULTY, diagnosed

# 44164749 trains, only not for long enough: the first step does not show it.
UNSEEN = {"44164749"}


def has_problem(findings):
    return any(f.severity is Severity.PROBLEM for f in findings)


@pytest.mark.parametrize("name", sorted(set(FAULTY) - UNSEEN))
def test_a_faulty_program_has_a_problem_and_a_true_cause_is_named(name):
    findings = diagnosed(FAULTY[name]).findings
    assert has_problem(findings)
    assert {f.cause for f in findings[:3]} & set(FAULTY[name].causes)


@pytest.mark.parametrize("name", sorted(set(CORRECTED) - UNSEEN))
def test_a_corrected_program_has_no_problem(name):
    result = diagnosed(CORRECTED[name]).findings
    assert [f.code for f in result if f.severity is Severity.PROBLEM] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(CORRECTED))
def test_a_corrected_program_trains(name):
    """Its loss ends well below the constant baseline, or where it began."""
    subject = CORRECTED[name]
    torch.manual_seed(0)
    x, y = subject.data()
    model = subject.build()
    optimizer = subject.optimizer(model)
    model.train()
    start = float(subject.loss(model(x[:500]), y[:500]))
    for _ in range(min(subject.passes, max(1, 20_000 * subject.batch // len(x)))):
        for rows in torch.randperm(len(x)).split(subject.batch):
            optimizer.zero_grad()
            subject.loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    model.eval()
    assert float(subject.loss(model(x[:500]), y[:500])) < 0.8 * start
