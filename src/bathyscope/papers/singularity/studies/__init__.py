"""Studies of networks with and without skips: do they train, and what becomes singular?"""

from bathyscope.papers.singularity.studies import (
    accuracy,
    conditions,
    curves,
    layer_deletion,
    similar_networks,
    table_4,
    unit_values,
    which_came_first,
)

STUDIES = (
    *accuracy.STUDIES,
    table_4.STUDY,
    *curves.STUDIES,
    *unit_values.STUDIES,
    *conditions.STUDIES,
    layer_deletion.STUDY,
    similar_networks.STUDY,
    which_came_first.STUDY,
)
