"""Studies of the norm of gradients on their way through blocks."""

from bathyscope.papers.norm_preservation.studies import (
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    overhead,
    table_1,
    table_2,
    table_3,
)

STUDIES = (
    figure_2.STUDY,
    figure_3.STUDY,
    figure_4.STUDY,
    figure_5.STUDY,
    table_1.STUDY,
    table_2.STUDY,
    table_3.STUDY,
    overhead.STUDY,
)
