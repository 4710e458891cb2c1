"""Every study, by name."""

from bathyscope.studies.record import Study
from bathyscope.studies.shortcut_length import figure_4 as shortcut_length_figure_4

STUDIES: dict[str, Study] = {study.name: study for study in (shortcut_length_figure_4.STUDY,)}
