"""Every study, by name."""

from bathyscope.studies import nests, norm_preservation, shortcut_length, singularity
from bathyscope.studies.record import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for theme in (singularity, shortcut_length, nests, norm_preservation)
    for study in theme.STUDIES
}
