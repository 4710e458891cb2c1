"""From measurements to findings to remedies, and the re-measurement that shows what helped."""

from bathyscope.diagnosis.codes import CODES, explained
from bathyscope.diagnosis.diagnose import diagnose
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.difference import Difference
from bathyscope.diagnosis.look_ahead import Event, events_of
from bathyscope.diagnosis.thresholds import THRESHOLDS, Threshold, Thresholds

__all__ = [
    "CODES",
    "THRESHOLDS",
    "Diagnosis",
    "Difference",
    "Event",
    "Threshold",
    "Thresholds",
    "diagnose",
    "events_of",
    "explained",
]
