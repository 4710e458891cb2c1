"""The flight recorder: it watches a training loop, notices what happens, and says where it began."""

from bathyscope.recorder.autopsy import (
    Autopsy,
    autopsy_of_log,
    autopsy_of_metrics,
    autopsy_of_weights,
)
from bathyscope.recorder.event import KINDS, Event, EventKind
from bathyscope.recorder.log import is_log, read_events
from bathyscope.recorder.trackers import Tracker
from bathyscope.recorder.watch import Watch, watch

__all__ = [
    "KINDS",
    "Autopsy",
    "Event",
    "EventKind",
    "Tracker",
    "Watch",
    "autopsy_of_log",
    "autopsy_of_metrics",
    "autopsy_of_weights",
    "is_log",
    "read_events",
    "watch",
]
