"""Every study of the papers that are installed, by name."""

import functools

from bathyscope.core.papers import papers, part
from bathyscope.studies.record import Study


@functools.cache
def all_studies() -> dict[str, Study]:
    """The studies of all papers by name, paper by paper."""
    return {study.name: study for theme in papers() for study in part(theme, "studies")}
