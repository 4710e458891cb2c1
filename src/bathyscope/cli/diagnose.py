"""`bathyscope diagnose` and `bathyscope explain`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bathyscope.cli.case import (
    BatchSize,
    DataName,
    JsonFile,
    LossName,
    ModelName,
    ModelOptions,
    OptimizerName,
    Rate,
    Seed,
    Weights,
    case_of,
)
from bathyscope.cli.train import assignments
from bathyscope.core.errors import UnknownName, UsageError


def diagnose(
    model: ModelName,
    weights: Weights = None,
    data: DataName = "digits",
    batch_size: BatchSize = 64,
    loss: LossName = "cross-entropy",
    optimizer: OptimizerName = "sgd",
    lr: Rate = 0.1,
    probes: Annotated[
        Literal["standard", "full"],
        typer.Option(help="full adds a look-ahead of some steps on a copy, and block deletion."),
    ] = "standard",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the look-ahead.")] = 8,
    blocks: Annotated[
        list[str] | None, typer.Option(help="Names or globs of the blocks to measure.")
    ] = None,
    most_blocks: Annotated[
        int | None, typer.Option(help="Measure at most so many blocks, spread evenly.")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(help="GiB that measuring may take; four fifths of what is free by default."),
    ] = None,
    thresholds: Annotated[
        Path | None, typer.Option(help="A TOML file whose table [thresholds] overrides some.")
    ] = None,
    silence: Annotated[
        list[str] | None, typer.Option(help="A code or cause of findings to leave out.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="An earlier report (.json): did it get better?")
    ] = None,
    out: Annotated[
        list[Path] | None, typer.Option(help="Write the report: .html, .json or .png.")
    ] = None,
    as_json: JsonFile = None,
    fail_on: Annotated[
        str | None,
        typer.Option(help="Exit with code 3 from this severity on: note, warning or problem."),
    ] = None,
    seed: Seed = 0,
    set_: ModelOptions = None,
) -> None:
    """Measure a network block by block and say what is wrong, where, and what helps.

    Example: bathyscope diagnose plain-110 --data digits --lr 0.1 --probes full --out report.html
    """
    severities = ["note", "warning", "problem"]
    if fail_on is not None and fail_on not in severities:
        raise UnknownName("severity", fail_on, severities)
    from bathyscope import diagnosis, report
    from bathyscope.cli.waiting import waiting

    to_stdout = as_json is not None and str(as_json) == "-"
    if to_stdout and against is not None:
        raise UsageError(
            "--against is told in words, and --json - leaves room for JSON only; give --json a file."
        )
    for path in out or ():
        report.check_destination(path)
    earlier = None if against is None else report.read_report(against)
    with waiting(f"diagnosing {model}"):
        case = case_of(
            model,
            weights=weights,
            data=data,
            batch_size=batch_size,
            loss=loss,
            optimizer=optimizer,
            lr=lr,
            seed=seed,
            options=assignments(set_ or []),
        )
        found = diagnosis.diagnose(
            case.model,
            case.batch,
            loss=case.loss,
            optimizer=case.optimizer,
            probes=probes,
            blocks=blocks or None,
            thresholds=thresholds,
            silence=silence or (),
            steps=steps,
            most_blocks=most_blocks,
            memory=memory,
            title=model,
        )
    if to_stdout:
        typer.echo(json.dumps(report.to_json(found.report()), allow_nan=False))
    else:
        found.show()
        if found.stages:
            _print_events(diagnosis.events_of(found))
        if earlier is not None:
            typer.echo(f"\nAgainst {against}: {found.diff(earlier)}")
    if as_json is not None and not to_stdout:
        found.save(as_json.with_suffix(".json"))
    for path in out or ():
        found.save(path)
        typer.echo(f"written: {path}", err=True)
    gravest = -1 if found.severity is None else found.severity.rank
    if fail_on is not None and gravest >= severities.index(fail_on):
        raise typer.Exit(3)


def explain(
    code: Annotated[
        str | None, typer.Argument(help="Code of a finding; all of them without.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a finding means, where that comes from, and what helps.

    Example: bathyscope explain exploding-gradient
    """
    from dataclasses import asdict

    from bathyscope.diagnosis.codes import CODES, code_of

    if as_json:
        chosen = CODES if code is None else {code: code_of(code)}
        typer.echo(json.dumps({name: asdict(entry) for name, entry in chosen.items()}))
        return
    if code is None:
        width = max(map(len, CODES))
        for name, entry in CODES.items():
            typer.echo(f"{name:<{width}}  {entry.cause:<14}  {entry.title}")
        return
    entry = code_of(code)
    typer.echo(f"{code}: {entry.title}\n\n{entry.why}\n")
    typer.echo(
        f"Cause: {entry.cause}\nSource: {entry.source}\nWhat helps: {entry.remedy or 'none known'}"
    )


def _print_events(events: object) -> None:
    typer.echo("\nIn this order:")
    for event in events:  # type: ignore[attr-defined]
        when = "at the start" if event.step == 0 else f"after {event.step} step(s)"
        first = f" ({event.finding.blocks[0]})" if event.finding.blocks else ""
        typer.echo(f"  {when:<16} {event.finding.code}{first}")
