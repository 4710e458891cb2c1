"""From measurements to findings to remedies, and the re-measurement that shows what helped."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.diagnosis.compare import Contender as Contender
    from bathyscope.diagnosis.compare import Course as Course
    from bathyscope.diagnosis.compare import compare as compare
    from bathyscope.diagnosis.coordinate_check import CoordinateCheck as CoordinateCheck
    from bathyscope.diagnosis.coordinate_check import coordinate_check as coordinate_check
    from bathyscope.diagnosis.diagnose import diagnose as diagnose
    from bathyscope.diagnosis.diagnosis import Diagnosis as Diagnosis
    from bathyscope.diagnosis.difference import Difference as Difference
    from bathyscope.diagnosis.explain import Explanation as Explanation
    from bathyscope.diagnosis.explain import explain as explain
    from bathyscope.diagnosis.look_ahead import FindingEvent as FindingEvent
    from bathyscope.diagnosis.look_ahead import events_of as events_of
    from bathyscope.diagnosis.plan import DiagnosisPlan as DiagnosisPlan
    from bathyscope.diagnosis.plan import plan_diagnosis as plan_diagnosis
    from bathyscope.diagnosis.race import Attempt as Attempt
    from bathyscope.diagnosis.treat import treat as treat
    from bathyscope.diagnosis.treatment import Treatment as Treatment
    from bathyscope.diagnosis.twin import Twin as Twin
    from bathyscope.diagnosis.twin import twin as twin

# lazy, because `bathyscope explain` needs no torch
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "Attempt": "race",
        "Contender": "compare",
        "CoordinateCheck": "coordinate_check",
        "Course": "compare",
        "Diagnosis": "diagnosis",
        "DiagnosisPlan": "plan",
        "Difference": "difference",
        "Explanation": "explain",
        "FindingEvent": "look_ahead",
        "Treatment": "treatment",
        "compare": "compare",
        "coordinate_check": "coordinate_check",
        "diagnose": "diagnose",
        "events_of": "look_ahead",
        "explain": "explain",
        "plan_diagnosis": "plan",
        "Twin": "twin",
        "treat": "treat",
        "twin": "twin",
    },
)
