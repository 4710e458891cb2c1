"""From measurements to findings to remedies, and the re-measurement that shows what helped."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.diagnosis.codes import CODES as CODES
    from bathyscope.diagnosis.codes import code_of as code_of
    from bathyscope.diagnosis.comparing import Contender as Contender
    from bathyscope.diagnosis.comparing import Course as Course
    from bathyscope.diagnosis.comparing import compare as compare
    from bathyscope.diagnosis.diagnosis import Diagnosis as Diagnosis
    from bathyscope.diagnosis.difference import Difference as Difference
    from bathyscope.diagnosis.examination import diagnose as diagnose
    from bathyscope.diagnosis.look_ahead import FindingEvent as FindingEvent
    from bathyscope.diagnosis.look_ahead import events_of as events_of
    from bathyscope.diagnosis.plan import DiagnosisPlan as DiagnosisPlan
    from bathyscope.diagnosis.plan import plan_diagnosis as plan_diagnosis
    from bathyscope.diagnosis.race import Attempt as Attempt
    from bathyscope.diagnosis.thresholds import THRESHOLDS as THRESHOLDS
    from bathyscope.diagnosis.thresholds import Threshold as Threshold
    from bathyscope.diagnosis.thresholds import Thresholds as Thresholds
    from bathyscope.diagnosis.treating import treat as treat
    from bathyscope.diagnosis.treatment import Treatment as Treatment

# lazy, because `bathyscope explain` needs the codes and not torch
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "Attempt": "race",
        "CODES": "codes",
        "Contender": "comparing",
        "Course": "comparing",
        "Diagnosis": "diagnosis",
        "DiagnosisPlan": "plan",
        "Difference": "difference",
        "FindingEvent": "look_ahead",
        "THRESHOLDS": "thresholds",
        "Threshold": "thresholds",
        "Thresholds": "thresholds",
        "Treatment": "treatment",
        "code_of": "codes",
        "compare": "comparing",
        "diagnose": "examination",
        "events_of": "look_ahead",
        "plan_diagnosis": "plan",
        "treat": "treating",
    },
)
