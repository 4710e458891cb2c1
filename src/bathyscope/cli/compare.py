"""`bathyscope compare`: several networks side by side, before and after some steps of training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bathyscope.cli.case import CaseWords, with_case


@with_case(without=("model",))
def compare(
    words: CaseWords,
    models: Annotated[
        list[str], typer.Argument(help="Names of networks, or package.module:factory.")
    ],
    steps: Annotated[int, typer.Option(min=1, help="Training steps between the diagnoses.")] = 30,
    out: Annotated[
        Path, typer.Option(help="Folder for comparison.html, comparison.png and the reports.")
    ] = Path("comparison"),
) -> None:
    """Diagnose networks side by side, train each for some steps, and diagnose them again.

    A Procrustes network is trained with its remedy on.

    Example: bathyscope compare preplain-83 preresnet-83 procresnet-85 --steps 30 --out comparison
    """
    from bathyscope import diagnosis, report
    from bathyscope.cli.build import training_batches
    from bathyscope.cli.waiting import waiting
    from bathyscope.core.files import check_place, make_folder
    from bathyscope.diagnosis.comparing import Contender

    check_place(out, folder=True)
    with waiting("comparing") as tell:
        contenders = []
        for name in models:
            case = words.case(name)
            contenders.append(
                Contender(name, case.model, case.optimizer, prepare=_procrustes_of(case.model))
            )
        batches = training_batches(words, steps=steps)
        courses = diagnosis.compare(contenders, batches, loss=case.loss, tell=tell)
        tell("writing")
        reports = [course.report() for course in courses]
        make_folder(out)
        for entry in reports:
            report.write(entry, out / f"{_file_name(entry.title)}.json")
        report.write_comparison(reports, out / "comparison.html")
        report.write_comparison(reports, out / "comparison.png")

    def say() -> None:
        _print(courses)
        typer.echo(f"\nOpen {out / 'comparison.html'} to see where, block by block.")

    words.answer([_summary(course) for course in courses], say)


def _procrustes_of(model: Any) -> Any:
    """What switches the remedy on for a network that declares its transition layers."""
    from bathyscope.remedies import procrustes_

    declared = getattr(model, "transition_layers", None)
    if declared is None or not declared():
        return None
    return lambda twin, optimizer: procrustes_(optimizer, twin.transition_layers())


def _summary(course: Any) -> dict[str, object]:
    return {
        "model": course.start.title,
        "at the start": [f.code for f in course.start.findings],
        "at the end": [f.code for f in course.end.findings],
        "loss": [loss if loss == loss else None for loss in course.losses],
        "accuracy": course.accuracy,
        "forecast": course.forecast.verdict,
        "probability": course.forecast.probability,
        "came true": course.came_true,
    }


def _print(courses: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(
        *("network", "at the start", "forecast", "loss", "accuracy", "came true", "after training"),
        box=None,
        pad_edge=False,
    )
    for course in courses:
        first, last = course.losses[0], course.losses[-1]
        accuracy = "–" if course.accuracy is None else f"{course.accuracy:.0%}"
        table.add_row(
            course.start.title,
            course.start.verdict,
            f"{course.forecast.verdict} ({course.forecast.probability:.0%})",
            f"{first:.3g} → {last:.3g}",
            accuracy,
            course.came_true,
            course.end.verdict,
        )
    console.print(table)


def _file_name(title: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in title)
