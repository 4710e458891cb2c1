"""Studies of the length of shortcuts, and of curvature."""

from bathyscope.papers.shortcut_length.studies import (
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
)

STUDIES = (
    figure_2.STUDY,
    figure_3.STUDY,
    figure_4.STUDY,
    figure_5.STUDY,
    figure_6.STUDY,
    figure_7.STUDY,
    figure_8.STUDY,
    figure_9.STUDY,
    figure_10.STUDY,
    figure_11.STUDY,
)
