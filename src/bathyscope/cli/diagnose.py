"""`bathyscope diagnose` and `bathyscope explain`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bathyscope.cli.formats import (
    FailOn,
    Format,
    check_severity,
    fail_if_severe,
    print_findings,
    source_of,
)
from bathyscope.cli.options import CommandOptions, JsonFile, answer, with_options
from bathyscope.cli.out import AllFiles, OutFiles, write_out
from bathyscope.cli.screen import echo
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Severity

if TYPE_CHECKING:
    from bathyscope.diagnosis import Diagnosis
    from bathyscope.report.ci_formats import Findings


@with_options
def diagnose(
    text: CommandOptions,
    probes: Annotated[
        Literal["standard", "full"],
        typer.Option(help="full adds a look-ahead of some steps on a copy, and block deletion."),
    ] = "standard",
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps of the look-ahead.")] = 8,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Steps of training that you plan.")
    ] = None,
    most_blocks: Annotated[
        int | None, typer.Option(help="Measure at most this many blocks, spread evenly.")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(help="GiB that measuring may take; four fifths of what is free by default."),
    ] = None,
    thresholds: Annotated[
        Path | None, typer.Option(help="A TOML file whose table [thresholds] overrides some.")
    ] = None,
    silence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE[=REASON]", help="A code or cause of findings to leave out, and why."
        ),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="An earlier report (.json): did it get better?")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Apply this recipe (.json, of `treat`) first.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what it would cost; no weights are made.")
    ] = False,
    out: AllFiles = None,
    form: Format = "text",
    fail_on: FailOn = None,
) -> None:
    """Measure a network block by block and say what is wrong, where, and what helps.

    Example: bathyscope diagnose plain-110 --data digits --lr 0.1 --probes full --out report.html

    Example: bathyscope diagnose gpt-96 --set width=12288 --data text --plan
    """
    # long: most of it is the options, one per line
    check_severity(fail_on)
    from bathyscope import diagnosis, report
    from bathyscope.cli.screen import spinner

    if plan:
        _plan(text, probes, memory)
        return
    if against is not None and str(text.as_json) == "-":
        raise UsageError(
            "--against is reported in words, and --json - leaves room for JSON only; give --json a file."
        )
    earlier = None if against is None else report.read_report(against)
    with spinner(f"diagnosing {text.model}"):
        setup = text.setup()
        optimizer = setup.optimizer
        if recipe is not None:
            from bathyscope.remedies import apply_

            optimizer = apply_(setup.model, recipe, optimizer=optimizer)
        result = diagnosis.diagnose(
            setup.model,
            setup.batch,
            loss=setup.loss,
            optimizer=optimizer,
            probes=probes,
            blocks=setup.blocks,
            thresholds=thresholds,
            silence=_reasons(silence or ()),
            steps=steps,
            budget=budget,
            most_blocks=most_blocks,
            memory=memory,
            title=setup.name,
        )

    shown = result.report()

    def say() -> None:
        result.show()
        if not {"optimizer", "lr"} & text.given and recipe is None:
            echo(f"Assumed: {text.optimizer} at learning rate {text.lr:g} (--optimizer, --lr).")
        if result.stages:
            _print_events(diagnosis.events_of(result))
        if earlier is not None:
            echo(f"\nAgainst {against}: {result.diff(earlier)}")

    as_json = Path("-") if form == "json" and text.as_json is None else text.as_json
    if form in ("sarif", "junit", "github"):
        print_findings(_findings(result, text.model, fail_on), form)
    value = report.to_json(shown)
    answer(as_json, value, say if form in ("text", "json") else _nothing)
    write_out(
        out,
        title=text.model,
        value=value,
        say=say,
        save=result.save,
        findings=lambda: _findings(result, text.model, fail_on),
    )
    if fail_if_severe(shown.roots, fail_on):
        raise typer.Exit(3)


def _reasons(silence: Iterable[str]) -> dict[str, str]:
    """Codes with the reason of each, of words such as `dead-units` and `dead-units=meant`."""
    pairs = (given.partition("=") for given in silence)
    return {code.strip(): reason.strip() for code, _, reason in pairs}


def _findings(result: "Diagnosis", name: str, fail_on: str | None) -> "Findings":
    from bathyscope.report.ci_formats import Findings, by_depth

    shown, reasons = result.report(), result.setting.options.get("silence", {})
    file, line = source_of(name)
    return Findings(
        title=shown.title,
        findings=by_depth(shown.roots, shown.blocks),
        passed=shown.passed,
        not_checked=shown.not_checked,
        file=file,
        line=line,
        fail_on=Severity(fail_on or "problem"),
        silenced=[(f, reasons.get(f.code) or reasons.get(f.cause, "")) for f in result.silenced],
    )


def _nothing() -> None:
    """It is said in another form."""


def _plan(text: CommandOptions, probes: str, memory: float | None) -> None:
    from dataclasses import asdict

    from bathyscope.cli.build import skeleton_case
    from bathyscope.core.devices import readable_size
    from bathyscope.diagnosis import plan_diagnosis

    model, inputs = skeleton_case(text)
    result = plan_diagnosis(model, inputs, optimizer=text.optimizer, probes=probes, memory=memory)

    def say() -> None:
        echo(f"{text.model}: {result}")
        for probe in result.probes:
            echo(
                f"  {probe.name:<42} {probe.passes:>5.0f} passes  {probe.operations:9.2e} operations"
                f"  {readable_size(probe.memory):>8}"
            )

    plain = asdict(result) | {
        "memory": result.memory,
        "steps": result.steps,
        "seconds": result.seconds,
    }
    text.answer(plain, say)


def explain(
    code: Annotated[
        str | None, typer.Argument(help="Code of a finding; all of them without.")
    ] = None,
    out: OutFiles = None,
    as_json: JsonFile = None,
) -> None:
    """Say what a finding means, where that comes from, and what helps.

    Example: bathyscope explain exploding-gradient
    """
    from bathyscope.diagnosis.explain import explain as explain_code
    from bathyscope.rules import all_rules

    chosen = [explain_code(name) for name in (all_rules() if code is None else [code])]

    def say() -> None:
        if code is not None:
            echo(chosen[0])
            return
        width = max(len(entry.code) for entry in chosen)
        for entry in chosen:
            echo(f"{entry.code:<{width}}  {entry.cause:<14}  {entry.title}")

    value = {entry.code: entry.to_json() for entry in chosen}
    answer(as_json, value, say)
    write_out(out, title=code or "findings", value=value, say=say)


def _print_events(events: object) -> None:
    from bathyscope.foresight import stage_label

    echo("\nIn this order:")
    for event in events:  # type: ignore[attr-defined]
        when = stage_label(event.step)
        first = f" ({event.finding.blocks[0]})" if event.finding.blocks else ""
        echo(f"  {when:<16} {event.finding.code}{first}")
