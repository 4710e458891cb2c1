"""Every study of the papers that are installed, by name."""

from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.plugins.papers import find, names_of, papers, part
from bathyscope.studies.record import Study


def all_studies() -> dict[str, Study]:
    """The studies of all papers by name, paper by paper."""
    return {name: study for theme in papers() for name, study in studies_of(theme).items()}


def studies_of(theme: str) -> dict[str, Study]:
    """The studies of one paper by name; none where there is no such paper."""
    return dict(part(theme, "studies"))


def names() -> list[str]:
    """The names of all studies, paper by paper.

    Examples:
        >>> "shortcut_length.figure_4" in names()
        True
    """
    return [name for theme in papers() for name in names_of(theme, "studies")]


def study_of(name: str) -> Study:
    """The study of that name; its file alone is loaded.

    Raises:
        UnknownName: there is none; the nearest are named.
    """
    study: Study | None = find(check_name("name", name), "studies")
    if study is None:
        hint = "`bathyscope reproduce list` shows all."
        raise UnknownName("study", name, names(), hint=hint)
    return study
