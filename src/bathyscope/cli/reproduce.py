"""`bathyscope reproduce`: run the studies of the papers, and gather them on one page."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import JsonFile, answer
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    from bathyscope.studies import StudyResult
    from bathyscope.sweep import Backend

_MARKS = {True: "✓", False: "✗", None: "·"}


def reproduce(
    study: Annotated[
        str, typer.Argument(help="A study's name, a theme, `all`, or `list` to see what there is.")
    ],
    preset: Annotated[
        str,
        typer.Option(
            help="quick or full (ours: minutes on digits; larger data, reduced length), cited (the code "
            "that the paper names) or printed (what it prints), where a study has them."
        ),
    ] = "quick",
    out: Annotated[
        Path, typer.Option(help="Folder to write runs, tables, figures and the page to.")
    ] = Path("studies"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds, in place of the preset's.")
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            help="Where runs are made: local, dask, dask://host:port, slurm, or submitit."
        ),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if left out.")
    ] = None,
    publish: Annotated[
        Path | None,
        typer.Option(help="Also write small JSON and PNG, for pages, into this folder."),
    ] = None,
    as_json: JsonFile = None,
) -> None:
    """Run a figure or table of the papers, and say what of its shape was met.

    What was run before is read from the folder; what was stopped or killed continues. With `all` or a
    theme, every study of the preset is run whose data is here. The folder's index.html shows all
    results: each figure with its preset and its checks.

    Example: bathyscope reproduce shortcut_length.figure_4 --out studies

    Example: bathyscope reproduce all --on dask://10.0.0.1:8786 --out /shared/studies
    """
    from bathyscope import studies

    if study == "list":
        _list(as_json)
        return
    quiet = as_json == Path("-")
    backend = _backend(on, workers, out)
    wanted = list(studies.all_studies() if study == "all" else studies.studies_of(study))
    results = [
        _run(name, preset, out, seeds=seeds, workers=workers, backend=backend, quiet=quiet)
        for name in wanted or [study]
        if not wanted or _can_run(name, preset)  # of one study alone its error says why
    ]
    if publish is not None:
        for result in results:
            studies.publish(result, publish)
    page = studies.write_gallery(out)
    answer(
        as_json,
        [result.as_dict() for result in results],
        lambda: echo(f"{page} shows all results of this folder."),
    )


def _backend(on: str, workers: int | None, out: Path) -> "Backend | None":
    """Where runs are made; None for processes of this machine, which `workers` says all about."""
    from bathyscope.sweep import backend_of

    if on == "local":
        return None
    return backend_of(on, workers=workers, folder=out / "submitit")


def _list(as_json: Path | None) -> None:
    from bathyscope.studies import all_studies

    studies = list(all_studies().values())
    rows = [
        {
            "study": study.name,
            "title": study.title,
            "shows": study.shows,
            "presets": {name: p.resolved() for name, p in study.presets.items()},
        }
        for study in studies
    ]

    def say() -> None:
        from rich.table import Column, Table

        from bathyscope.core.terminal import guarded

        name = Column("study", no_wrap=True, min_width=max(len(study.name) for study in studies))
        shown = Table(name, "what it shows", "data, quick first", box=None)
        for study in studies:
            sets = ", ".join(dict.fromkeys(preset.data for preset in study.presets.values()))
            shown.add_row(study.name, study.title, sets)
        guarded().print(shown)

    answer(as_json, rows, say)


def _can_run(name: str, preset: str) -> bool:
    """Whether a study has the preset and its data is here; if not, say so."""
    from bathyscope import data, studies

    if preset not in studies.study_of(name).presets and preset in studies.PRESETS:
        why = f"its paper has no settings of the kind {preset}"
    elif missing := studies.missing_data(name, preset):
        why = f"{', '.join(missing)} is not here; {data.how_to_get(missing[0])}"
    else:
        return True
    echo(f"{name}: passed over, for {why}.", err=True)
    return False


def _run(
    name: str,
    preset: str,
    out: Path,
    *,
    seeds: int | None,
    workers: int | None,
    backend: "Backend | None",
    quiet: bool,
) -> "StudyResult":
    from bathyscope import studies
    from bathyscope.sweep import GridProgress

    began = time.monotonic()
    with GridProgress() as progress:
        result = studies.run(
            name,
            preset=preset,
            out=out,
            seeds=seeds,
            workers=workers or os.cpu_count() or 1,
            backend=backend,
            on_change=progress,
        )
    if not quiet:
        echo(
            f"{name} ({preset}): {result.title}\n"
            f"  {result.num_passed} of {result.num_judged} met, {time.monotonic() - began:.0f} s, "
            f"{result.provenance.num_runs} runs"
        )
        for check in result.checks:
            echo(f"  {_MARKS[check.passed]} {check.statement}: {check.text}")
        echo(f"  {out / name / preset}")
    return result
