"""Every study, by name."""

from bathyscope.studies import norm_preservation, shortcut_length
from bathyscope.studies.record import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (*shortcut_length.STUDIES, *norm_preservation.STUDIES)
}
