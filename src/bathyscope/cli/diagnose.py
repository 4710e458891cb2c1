"""`bathyscope diagnose` and `bathyscope explain`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bathyscope.cli.case import CaseWords, JsonFile, answer, with_case
from bathyscope.core.errors import UnknownName, UsageError


@with_case
def diagnose(
    words: CaseWords,
    probes: Annotated[
        Literal["standard", "full"],
        typer.Option(help="full adds a look-ahead of some steps on a copy, and block deletion."),
    ] = "standard",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the look-ahead.")] = 8,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Steps of training that you plan.")
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
    recipe: Annotated[
        Path | None, typer.Option(help="Apply this recipe (.json, of `treat`) first.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only say what it would cost; no weights are made."),
    ] = False,
    out: Annotated[
        list[Path] | None, typer.Option(help="Write the report: .html, .json or .png.")
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(help="Exit with code 3 from this severity on: note, warning or problem."),
    ] = None,
) -> None:
    """Measure a network block by block and say what is wrong, where, and what helps.

    Example: bathyscope diagnose plain-110 --data digits --lr 0.1 --probes full --out report.html

    Example: bathyscope diagnose gpt-96 --set width=12288 --data text --plan
    """
    # long: most of it is the options, one a line
    severities = ["note", "warning", "problem"]
    if fail_on is not None and fail_on not in severities:
        raise UnknownName("severity", fail_on, severities)
    from bathyscope import diagnosis, report
    from bathyscope.cli.spinner import spinner

    if plan:
        _plan(words, probes, memory)
        return
    if against is not None and str(words.as_json) == "-":
        raise UsageError(
            "--against is told in words, and --json - leaves room for JSON only; give --json a file."
        )
    for path in out or ():
        report.check_destination(path)
    earlier = None if against is None else report.read_report(against)
    with spinner(f"diagnosing {words.model}"):
        case = words.case()
        optimizer = case.optimizer
        if recipe is not None:
            from bathyscope.remedies import apply_

            optimizer = apply_(case.model, recipe, optimizer=optimizer)
        found = diagnosis.diagnose(
            case.model,
            case.batch,
            loss=case.loss,
            optimizer=optimizer,
            probes=probes,
            blocks=case.blocks,
            thresholds=thresholds,
            silence=silence or (),
            steps=steps,
            budget=budget,
            most_blocks=most_blocks,
            memory=memory,
            title=case.name,
        )

    def say() -> None:
        found.show()
        if found.stages:
            _print_events(diagnosis.events_of(found))
        if earlier is not None:
            typer.echo(f"\nAgainst {against}: {found.diff(earlier)}")

    words.answer(report.to_json(found.report()), say)
    for path in out or ():
        found.save(path)
        typer.echo(f"written: {path}", err=True)
    gravest = -1 if found.severity is None else found.severity.rank
    if fail_on is not None and gravest >= severities.index(fail_on):
        raise typer.Exit(3)


def _plan(words: CaseWords, probes: str, memory: float | None) -> None:
    from dataclasses import asdict

    from bathyscope.cli.build import skeleton_case
    from bathyscope.core.memory import readable_size
    from bathyscope.diagnosis import plan_diagnosis

    model, inputs = skeleton_case(words)
    found = plan_diagnosis(model, inputs, optimizer=words.optimizer, probes=probes, memory=memory)

    def say() -> None:
        typer.echo(f"{words.model}: {found}")
        for probe in found.probes:
            typer.echo(
                f"  {probe.name:<42} {probe.passes:>5.0f} passes  {probe.operations:9.2e} operations"
                f"  {readable_size(probe.memory):>8}"
            )

    plain = asdict(found) | {"memory": found.memory, "steps": found.steps, "seconds": found.seconds}
    words.answer(plain, say)


def explain(
    code: Annotated[
        str | None, typer.Argument(help="Code of a finding; all of them without.")
    ] = None,
    as_json: JsonFile = None,
) -> None:
    """Say what a finding means, where that comes from, and what helps.

    Example: bathyscope explain exploding-gradient
    """
    from dataclasses import asdict

    from bathyscope.diagnosis.codes import CODES, code_of
    from bathyscope.diagnosis.track_record import record_in_words

    chosen = CODES if code is None else {code: code_of(code)}

    def say() -> None:
        if code is None:
            width = max(map(len, chosen))
            for name, entry in chosen.items():
                typer.echo(f"{name:<{width}}  {entry.cause:<14}  {entry.title}")
            return
        entry = chosen[code]
        typer.echo(f"{code}: {entry.title}\n\n{entry.why}\n")
        typer.echo(
            f"Cause: {entry.cause}\nSource: {entry.source}\n"
            f"What helps: {entry.remedy or 'none known'}\n"
            f"Track record: {record_in_words(code)}"
        )

    answer(as_json, {name: asdict(entry) for name, entry in chosen.items()}, say)


def _print_events(events: object) -> None:
    from bathyscope.foresight import stage_label

    typer.echo("\nIn this order:")
    for event in events:  # type: ignore[attr-defined]
        when = stage_label(event.step)
        first = f" ({event.finding.blocks[0]})" if event.finding.blocks else ""
        typer.echo(f"  {when:<16} {event.finding.code}{first}")
