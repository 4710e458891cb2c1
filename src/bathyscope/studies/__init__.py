"""Every figure and table of the papers as a study: run it, look at it, see what was met."""

from bathyscope.studies.gallery import write_gallery
from bathyscope.studies.record import PRESETS, Check, Preset, Provenance, Study, StudyResult
from bathyscope.studies.registry import STUDIES
from bathyscope.studies.runner import missing_data, names, run, settings_of, study_of

__all__ = [
    "PRESETS",
    "STUDIES",
    "Check",
    "Preset",
    "Provenance",
    "Study",
    "StudyResult",
    "missing_data",
    "names",
    "run",
    "settings_of",
    "study_of",
    "write_gallery",
]
