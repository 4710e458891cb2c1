"""Studies of networks with and without skips: do they train, and what becomes singular?"""

from bathyscope.papers.singularity.studies import (
    conditions,
    curves,
    layer_deletion,
    similar_networks,
    table_1,
    table_2,
    table_3,
    table_4,
    unit_values,
    which_came_first,
)

STUDIES = (
    table_1.STUDY,
    table_2.STUDY,
    table_3.STUDY,
    table_4.STUDY,
    *curves.STUDIES,
    *unit_values.STUDIES,
    *conditions.STUDIES,
    layer_deletion.STUDY,
    similar_networks.STUDY,
    which_came_first.STUDY,
)
