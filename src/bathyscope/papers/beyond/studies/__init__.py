"""The studies of the theme `beyond`."""

from bathyscope.papers.beyond.studies import catalog, common_cause, depth, transformers

STUDIES = (*depth.STUDIES, common_cause.STUDY, catalog.STUDY, transformers.STUDY)
