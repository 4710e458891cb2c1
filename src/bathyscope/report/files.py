"""Reports as files: written whole or not at all, the form chosen by the ending."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bathyscope.core.arguments import check_kind, check_path
from bathyscope.core.errors import UsageError
from bathyscope.core.files import make_folder, read_json, write_atomic
from bathyscope.report.record import Report
from bathyscope.report.saved import from_json, to_json


def write(report: Report, path: Path | str) -> None:
    """Write a report as `.html`, `.json`, `.png`, `.svg` or `.pdf`.

    Raises:
        UsageError: the ending is another, or the folder cannot be written.
    """
    path = check_path("path", path)
    check_kind("report", report, Report)
    _put(path, _form_of(path)(report))


def _form_of(path: Path) -> "Callable[[Report], bytes]":
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"A report is written as {', '.join(FORMS)}, but {path.name!r} was given; "
            "choose one of these endings."
        )
    return form


def write_comparison(reports: Sequence[Report], path: Path | str) -> None:
    """Write several reports side by side as `.html`, `.png`, `.svg` or `.pdf`.

    Raises:
        UsageError: the ending is another, or the folder cannot be written.
    """
    from bathyscope.report.comparison import comparison_html
    from bathyscope.report.picture import comparison_picture

    path = check_path("path", path)
    if path.suffix.lower() == ".html":
        _put(path, comparison_html(reports).encode())
    elif path.suffix.lower() in PICTURES:
        _put(path, picture_bytes(lambda file: comparison_picture(reports, file), path.suffix))
    else:
        raise UsageError(
            f"A comparison is written as .html, {', '.join(PICTURES)}, but {path.name!r} was given."
        )


def read_report(path: Path | str) -> Report:
    """A report saved as `.json`.

    Raises:
        UsageError: the file cannot be read or is not a report.
    """
    return from_json(read_json(check_path("path", path), what="report"))


def _json(report: Report) -> bytes:
    return json.dumps(to_json(report), indent=1, allow_nan=False).encode()


def _html(report: Report) -> bytes:
    from bathyscope import report as package

    return package.to_html(report).encode()


def _picture(suffix: str) -> Callable[[Report], bytes]:
    def draw(report: Report) -> bytes:
        from bathyscope import report as package

        return picture_bytes(lambda file: package.to_picture(report, file), suffix)

    return draw


def picture_bytes(draw: Callable[[Path], None], suffix: str) -> bytes:
    """The bytes of a picture that is drawn into a file with this ending."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"picture{suffix}"
        draw(path)
        return path.read_bytes()


def _put(path: Path, contents: bytes) -> None:
    make_folder(path.parent)
    write_atomic(path, contents)


PICTURES = (".png", ".svg", ".pdf")
FORMS: dict[str, Callable[[Report], bytes]] = {
    ".html": _html,
    ".json": _json,
    **{suffix: _picture(suffix) for suffix in PICTURES},
}
