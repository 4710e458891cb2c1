"""The studies of the theme `beyond`."""

from bathyscope.papers.beyond.studies import common_cause, depth

STUDIES = (*depth.STUDIES, common_cause.STUDY)
