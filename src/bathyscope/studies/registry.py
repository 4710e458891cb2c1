"""Every study of the papers that are installed, by name."""

from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.plugins.papers import papers, part
from bathyscope.studies.record import Study


def all_studies() -> dict[str, Study]:
    """The studies of all papers by name, paper by paper."""
    return {name: study for theme in papers() for name, study in studies_of(theme).items()}


def studies_of(theme: str) -> dict[str, Study]:
    """The studies of one paper by name; none where there is no such paper."""
    return {study.name: study for study in part(theme, "studies")} if theme in papers() else {}


def study_of(name: str) -> Study:
    """The study of that name; its paper alone is loaded.

    Raises:
        UnknownName: there is none; the nearest are named.
    """
    study = studies_of(check_name("name", name).partition(".")[0]).get(name)
    if study is None:
        hint = "`bathyscope reproduce list` shows all."
        raise UnknownName("study", name, all_studies(), hint=hint)
    return study
