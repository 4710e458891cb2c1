"""The studies of the theme `beyond`."""

from bathyscope.papers.beyond.studies import common_cause, depth, transformers

STUDIES = (*depth.STUDIES, common_cause.STUDY, transformers.STUDY)
