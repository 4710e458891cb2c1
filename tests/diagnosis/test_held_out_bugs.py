"""Bugs that the rules were not tuned on, scored as a whole: most are seen, few corrections are blamed."""

import pytest

from bathyscope.core import Severity
from tests.diagnosis.held_out_bugs import CORRECTED, FAULTY
from tests.diagnosis.real_bugs import diagnosed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_score_on_bugs_held_out():
    seen = named = blamed = 0
    for name, subject in FAULTY.items():
        findings = diagnosed(subject).findings
        seen += any(f.severity is Severity.PROBLEM for f in findings)
        named += bool({f.cause for f in findings[:3]} & set(subject.causes))
        corrected = diagnosed(CORRECTED[name]).findings
        blamed += any(f.severity is Severity.PROBLEM for f in corrected)
    assert (seen >= 13, named >= 12, blamed <= 1) == (True, True, True), (seen, named, blamed)
