"""The flight recorder: it watches a training loop, notices what happens, and says where it began."""

from bathyscope.core.trackers import Tracker
from bathyscope.recorder.autopsy import (
    Autopsy,
    autopsy,
    autopsy_of_log,
    autopsy_of_metrics,
    autopsy_of_weights,
)
from bathyscope.recorder.event import Event
from bathyscope.recorder.log import is_log, read_events
from bathyscope.recorder.watch import Watch, watch

__all__ = [
    "Autopsy",
    "Event",
    "Tracker",
    "Watch",
    "autopsy",
    "autopsy_of_log",
    "autopsy_of_metrics",
    "autopsy_of_weights",
    "is_log",
    "read_events",
    "watch",
]
