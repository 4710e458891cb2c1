"""Figures and tables of papers as studies: run it, look at it, see what was met."""

from bathyscope.studies.gallery import write_gallery
from bathyscope.studies.publishing import (
    RESULTS,
    publish,
    publish_claims,
    published_claims,
    read_published,
)
from bathyscope.studies.record import PRESETS, Check, Preset, Provenance, Study, StudyResult
from bathyscope.studies.registry import all_studies
from bathyscope.studies.runner import missing_data, names, run, settings_of, study_of

__all__ = [
    "PRESETS",
    "RESULTS",
    "Check",
    "Preset",
    "Provenance",
    "Study",
    "StudyResult",
    "all_studies",
    "missing_data",
    "names",
    "publish",
    "publish_claims",
    "published_claims",
    "read_published",
    "run",
    "settings_of",
    "study_of",
    "write_gallery",
]
