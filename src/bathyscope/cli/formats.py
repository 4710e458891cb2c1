"""`--format`: findings for people, for machines, and for the pages of a pipeline."""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bathyscope.cli.screen import echo
from bathyscope.core.errors import UnknownName
from bathyscope.core.records import Finding, Severity

if TYPE_CHECKING:
    from bathyscope.report.ci_formats import Findings

Format = Annotated[
    Literal["text", "json", "sarif", "junit", "github"],
    typer.Option(
        "--format",
        help="What is printed; github: annotations, and a summary of the workflow's step.",
    ),
]

FailOn = Annotated[
    str | None,
    typer.Option(help="Exit with code 3 from this severity on: note, warning or problem."),
]


def check_severity(fail_on: str | None) -> None:
    """Raise where `--fail-on` names no severity.

    Raises:
        UnknownName: it does not.
    """
    severities = [str(severity) for severity in Severity]
    if fail_on is not None and fail_on not in severities:
        raise UnknownName("severity", fail_on, severities)


def print_findings(result: "Findings", wanted: str) -> None:
    """Print findings in a format of `report.ci_formats`, and for GitHub write the summary of the step too."""
    from bathyscope.core.terminal import printable
    from bathyscope.report.ci_formats import in_format, step_summary

    typer.echo(printable(in_format(result, wanted)))  # type: ignore[arg-type]
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if wanted == "github" and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(step_summary(result))


def fail_if_severe(roots: Sequence[Finding], fail_on: str | None) -> bool:
    """Whether a root cause is as severe as `--fail-on` says; then that is the last line printed.

    No effect is more severe than its root cause, so that the roots decide.
    """
    if fail_on is None:
        return False
    limit = Severity(fail_on).rank
    severe = [root for root in roots if root.severity.rank >= limit]
    if severe:
        from bathyscope.report.numbers import counts

        echo(f"FAILED: {counts(severe)}", err=True)
    return bool(severe)


def source_of(name: str) -> tuple[str, int]:
    """The file and line of a factory that was named; empty for a network of the catalog."""
    if ":" not in name:
        return "", 1
    from bathyscope.cli.resolve import factory_of

    try:
        factory = inspect.unwrap(factory_of(name))
        path = Path(inspect.getsourcefile(factory) or "")
        line = inspect.getsourcelines(factory)[1]
    except (TypeError, OSError):
        return "", 1
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix(), line
