"""`--out`: what a command has found, as files; the ending of each says in which form.

Every command that answers with one result takes `--out FILE`, as often as wanted. `.html`, `.json` and `.txt`
are known to all of them; the commands that draw take `.png`, `.svg` and `.pdf` too, and those that have
findings `.sarif`, and `.xml` for JUnit. Commands that write many files (`compare`, `train`, `sweep`,
`reproduce`) take a folder.
"""

import os
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bathyscope.cli.options import json_text
from bathyscope.cli.screen import echo, is_quiet, set_quiet
from bathyscope.core.errors import UsageError
from bathyscope.core.shown import PICTURES

if TYPE_CHECKING:
    from bathyscope.report.ci_formats import CiFormat, Findings

TEXTS = (".html", ".json", ".txt")
FINDINGS: dict[str, "CiFormat"] = {".sarif": "sarif", ".xml": "junit"}
"""What other tools read, of commands that have findings."""
_COLUMNS = "100"


def _check(paths: list[Path] | None, known: Collection[str]) -> list[Path] | None:
    """The files, unless one could not be written: known before the work, not after it."""
    from bathyscope.core.files import check_location

    for path in paths or ():
        if path.suffix.lower() not in known:
            raise UsageError(
                f"--out takes a file that ends in {', '.join(known)}, but {path.name!r} was given; "
                "choose one of these endings."
            )
        check_location(path)
    return paths


def _option(*endings: str) -> Any:
    """`--out` of a command whose result can be written in these forms."""
    known = (*TEXTS, *endings)

    def check(paths: list[Path] | None) -> list[Path] | None:
        return _check(paths, known)

    named = [f"{one} (JUnit)" if FINDINGS.get(one) == "junit" else one for one in known]
    return typer.Option(
        "--out",
        metavar="FILE",
        callback=check,
        help=f"Write the result, once for each file: {', '.join(named[:-1])} or {named[-1]}.",
        show_default=False,
    )


OutFiles = Annotated[list[Path] | None, _option()]
FigureFiles = Annotated[list[Path] | None, _option(*PICTURES)]
FindingFiles = Annotated[list[Path] | None, _option(*FINDINGS)]
AllFiles = Annotated[list[Path] | None, _option(*PICTURES, *FINDINGS)]


def write_out(
    paths: list[Path] | None,
    *,
    title: str,
    value: object,
    say: Callable[[], object],
    save: Callable[[Path], object] | None = None,
    saved: Collection[str] = (".html", *PICTURES),
    findings: "Callable[[], Findings] | None" = None,
) -> None:
    """Write a result into every file that `--out` named.

    Args:
        paths: what `--out` was given.
        title: of a page.
        value: what `--json` writes.
        say: prints the words.
        save: writes the forms that the result has of its own.
        saved: the endings that `save` is for.
        findings: of a command that has them, for what other tools read.
    """
    from bathyscope.core.files import make_folder, write_atomic

    for path in paths or ():
        ending = path.suffix.lower()
        make_folder(path.parent)
        if findings is not None and ending in FINDINGS:
            from bathyscope.report.ci_formats import in_format

            write_atomic(path, in_format(findings(), FINDINGS[ending]).encode())
        elif save is not None and ending in saved:
            save(path)
        else:
            text = json_text(value) + "\n" if ending == ".json" else printed_by(say)
            if ending == ".html":
                from bathyscope.report.document import render

                text = render("words.html", title=title, words=text)
            write_atomic(path, text.encode())
        echo(f"written: {path}", err=True)


def printed_by(say: Callable[[], object]) -> str:
    """What a function prints, as wide as a page, whatever the terminal is and even where it is quiet."""
    quiet, columns = is_quiet(), os.environ.get("COLUMNS")
    set_quiet(False)
    os.environ["COLUMNS"] = _COLUMNS  # what rich asks first
    try:
        with redirect_stdout(StringIO()) as stream:
            say()
    finally:
        set_quiet(quiet)
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return stream.getvalue()
