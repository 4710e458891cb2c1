"""Silent bugs that no rule was tuned on, and their corrected twins."""

import pytest
import torch

from bathyscope import diagnose
from tests.diagnosis.judged import PROGRAMS


def findings_of(name, *, fault):
    torch.manual_seed(0)
    model, batch, loss, optimizer = PROGRAMS[name][0](fault)
    return diagnose(model, batch, loss=loss, optimizer=optimizer).findings


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_is_among_the_first_three(name):
    findings = findings_of(name, fault=True)
    assert {f.code for f in findings[:3]} & set(PROGRAMS[name][1]), [f.code for f in findings]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corrected_program_has_no_problem(name):
    findings = findings_of(name, fault=False)
    assert [f.code for f in findings if f.severity == "problem"] == []
