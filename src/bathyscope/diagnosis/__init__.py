"""From measurements to findings to remedies, and the re-measurement that shows what helped."""

from bathyscope.diagnosis.codes import CODES, code_of
from bathyscope.diagnosis.comparing import Contender, Course, compare
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.difference import Difference
from bathyscope.diagnosis.examination import diagnose
from bathyscope.diagnosis.look_ahead import FindingEvent, events_of
from bathyscope.diagnosis.plan import DiagnosisPlan, plan_diagnosis
from bathyscope.diagnosis.race import Attempt
from bathyscope.diagnosis.thresholds import THRESHOLDS, Threshold, Thresholds
from bathyscope.diagnosis.treatment import Treatment, treat

__all__ = [
    "CODES",
    "THRESHOLDS",
    "Attempt",
    "Contender",
    "Course",
    "Diagnosis",
    "DiagnosisPlan",
    "Difference",
    "FindingEvent",
    "Threshold",
    "Thresholds",
    "Treatment",
    "code_of",
    "compare",
    "diagnose",
    "events_of",
    "plan_diagnosis",
    "treat",
]
