"""`bathyscope compare`: several networks side by side, before and after some steps of training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.screen import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from bathyscope.diagnosis.compare import Course


@with_options(without=("model",))
def compare(
    text: CommandOptions,
    models: Annotated[
        list[str], typer.Argument(help="Names of networks, or package.module:factory.")
    ],
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps between the diagnoses.")] = 30,
    treat: Annotated[
        bool, typer.Option("--treat", help="Treat a network that fails, and show that it trains.")
    ] = False,
    spend: Annotated[
        int, typer.Option(min=300, help="Steps that the search for a treatment may take.")
    ] = 300,
    out: Annotated[
        Path,
        typer.Option(help="Folder to write comparison.html, comparison.png and the reports to."),
    ] = Path("comparison"),
) -> None:
    """Diagnose networks side by side, train each for some steps, and diagnose them again.

    A forecast is made before the training, and compared with what came of it. A Procrustes network is
    trained with its remedy on.

    Example: bathyscope compare preplain-56 preresnet-56 --steps 100 --treat --out comparison
    """
    from bathyscope import diagnosis, report
    from bathyscope.cli.build import fresh_batches, training_batches
    from bathyscope.cli.screen import spinner
    from bathyscope.core.files import check_location, make_folder
    from bathyscope.diagnosis.compare import Contender

    check_location(out, folder=True)
    with spinner("comparing") as notify:
        contenders = []
        for name in models:
            setup = text.setup(name)
            contenders.append(
                Contender(name, setup.model, setup.optimizer, prepare=_procrustes_of(setup.model))
            )
        batches = training_batches(text, steps=steps)
        courses = diagnosis.compare(
            contenders,
            batches,
            loss=setup.loss,
            treat_with=fresh_batches(setup, text) if treat else None,
            spend=spend,
            notify=notify,
        )
        notify("writing")
        reports = [course.report() for course in courses]
        reports += [cured for c in courses if (cured := c.treated_report()) is not None]
        make_folder(out)
        for entry in reports:
            report.write(entry, out / f"{_file_name(entry.title)}.json")
        pages = _write_treatments(courses, out)
        report.write_comparison(reports, out / "comparison.html")
        report.write_comparison(reports, out / "comparison.png")

    def say() -> None:
        report.show_overview(report.overview(reports))
        echo(f"\nOpen {out / 'comparison.html'} to see where, block by block.")
        for page in pages:
            echo(f"The treatment, with the code to take away: {page}")

    text.answer([_summary(course) for course in courses], say)


def _procrustes_of(model: "nn.Module") -> "Callable[..., object] | None":
    """What switches the remedy on for a network that declares its transition layers."""
    from bathyscope.remedies import procrustes_

    declared = getattr(model, "transition_layers", None)
    if declared is None or not declared():
        return None
    return lambda twin, optimizer: procrustes_(optimizer, twin.transition_layers())


def _summary(course: "Course") -> dict[str, object]:
    return {
        "model": course.start.title,
        "at the start": [f.code for f in course.start.findings],
        "at the end": [f.code for f in course.end.findings],
        "loss": [loss if loss == loss else None for loss in course.losses],
        "accuracy": course.accuracy,
        "forecast": course.forecast.verdict,
        "probability": course.forecast.probability,
        "came true": course.came_true,
        "severity": None if course.start.severity is None else course.start.severity.value,
        "treatment": None if course.treatment is None else course.treatment.summary(),
    }


def _write_treatments(courses: "list[Course]", out: Path) -> list[Path]:
    """A page for every network that was treated."""
    from bathyscope.report import write

    pages = []
    for course in courses:
        if course.treatment is not None:
            pages.append(out / f"{_file_name(course.start.title)}-treated.html")
            write(course.treatment.report(), pages[-1])
    return pages


def _file_name(title: str) -> str:
    plain = "".join(c if c.isalnum() or c in "-_." else " " for c in title)
    return "-".join(plain.split())
