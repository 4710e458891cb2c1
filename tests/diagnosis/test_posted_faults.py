"""Faults as people post them are named, and trainings that work are left alone.

The rules were tuned on both sets; before the parts around the body were measured, the first count was
25 of 51. Most run in seconds; the deepest are slow.
"""

import pytest
import torch

from bathyscope.core import Severity, UsageError
from bathyscope.diagnosis import diagnose
from tests.diagnosis.healthy_trainings import HEALTHY
from tests.diagnosis.posted_faults import ERROR, FAULTS

DEEP = {
    "100 convolutions",
    "100 convolutions with BatchNorm",
    "post-norm transformer of 24 layers at Adam 3e-3",
    "RNN over 500 steps",
    "GRU over 300 steps",
    "wide ResNet",
    "preresnet-29 with SGD",
}


def named(names):
    return [pytest.param(n, marks=pytest.mark.slow) if n in DEEP else n for n in names]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", named(FAULTS))
def test_a_posted_fault_is_named(name):
    make, causes = FAULTS[name]
    torch.manual_seed(0)
    model, batch, options = make()
    if causes == (ERROR,):
        with pytest.raises(UsageError):
            diagnose(model, batch, **options)
        return
    findings = diagnose(model, batch, **options).findings
    named = [f.cause for f in findings[:3] if f.severity is not Severity.NOTE]
    assert set(named) & set(causes), [(f.code, f.cause) for f in findings]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", named(HEALTHY))
def test_a_training_that_works_is_left_alone(name):
    torch.manual_seed(0)
    model, batch, options = HEALTHY[name]()
    result = diagnose(model, batch, **options).findings
    assert [(f.code, f.evidence) for f in result if f.severity is not Severity.NOTE] == []
