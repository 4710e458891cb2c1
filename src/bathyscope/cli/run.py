"""`bathyscope run`: a training script, unchanged, with its loop under watch."""

import os
import re
import sys
from contextlib import chdir, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bathyscope.cli.formats import FailOn, Format, check_severity, fail_if_severe, print_findings
from bathyscope.cli.out import FindingFiles, write_out
from bathyscope.cli.script import STOPPED, run_script
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Severity
from bathyscope.core.terminal import printable, printable_json, terminal_width, wrapped

# Of `run`, which people write behind the script.
_OPTIONS = ("--out", "--fail-on", "--format", "--json", "--no-diagnose", "--steps", "--twin")
FORMS = ("compiled", "bfloat16", "ranks")

if TYPE_CHECKING:
    from bathyscope.cli.twin_ranks import RankExchange
    from bathyscope.core.loop_record import LoopRecord
    from bathyscope.diagnosis.loop import LoopDiagnosis
    from bathyscope.recorder.ledger import Ledger
    from bathyscope.report.ci_formats import Findings


def run(
    script: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGS]...",
            help="A Python file, or with -m a module; then its arguments.",
        ),
    ],
    is_module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is a module: -m package.train.")
    ] = False,
    steps: Annotated[
        int, typer.Option(min=1, help="Optimizer steps to watch; the script continues without.")
    ] = 200,
    out: FindingFiles = None,
    as_json: Annotated[
        str | None,
        typer.Option("--json", help="Write findings and rows as JSON; - for standard output."),
    ] = None,
    form: Format = "text",
    fail_on: FailOn = None,
    diagnoses: Annotated[
        bool,
        typer.Option(
            "--diagnose/--no-diagnose",
            help="Also diagnose a copy of the first step: model, batch, loss, optimizer.",
        ),
    ] = True,
    twin: Annotated[
        str | None,
        typer.Option(
            help="Compare steps of the first batch with those of the same model compiled or in bfloat16, or "
            "with those of another script, as the one before a refactoring: old_train.py. With ranks, "
            "under torchrun: the first step of all ranks with that of one that has all their samples."
        ),
    ] = None,
) -> None:
    """Run a training script as it is, watch its loop, and say at the end what is wrong with it.

    Model, batch, loss and optimizer of the first step are copied and diagnosed when the script has ended.
    What the script prints and its exit code stay its own; the report goes to standard error.

    Example: bathyscope run train.py --epochs 3

    Example: bathyscope run --steps 500 --out report.html -m mypackage.train
    """
    # long: most of it is the options, one per line
    check_severity(fail_on)
    if twin is not None and twin not in FORMS and not Path(twin).is_file():
        raise UnknownName("form of the model or script", twin, list(FORMS))
    if not is_module and not Path(script[0]).is_file():
        raise UsageError(f"There is no file {script[0]}; for a module give -m {script[0]}.")
    if twin == "ranks" and int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise UsageError(
            "--twin ranks compares processes, and there is one; start it with torchrun "
            "--nproc-per-node 2 -m bathyscope run --twin ranks train.py."
        )
    if note := "" if is_module else _misplaced(script[0], script[1:]):
        print(printable(note), file=sys.stderr, flush=True)
    from bathyscope.core.global_state import RngState
    from bathyscope.recorder.ledger import Ledger

    process, folder, start = os.getpid(), Path.cwd(), RngState.now()
    ledger = Ledger(most_steps=steps, copies_first_step=diagnoses or twin is not None)
    ledger.start()
    exchange = _exchange(ledger) if twin == "ranks" else nullcontext()
    try:
        with exchange:
            code = run_script(script, is_module=is_module)
    finally:
        ledger.stop()
    if os.getpid() != process or int(os.environ.get("RANK", "0")):
        sys.exit(code)  # a process that the script has forked, or another rank
    from bathyscope.diagnosis.loop import diagnose_loop

    with chdir(folder):  # paths are meant from where the script was started, which may have left
        first = ledger.first_step if code != STOPPED else None
        result = diagnose_loop(
            ledger.record, first if diagnoses else None, ledger.later_steps if first else ()
        )
        if code == STOPPED and diagnoses:
            note = "Model, batch and loss were not diagnosed: the script was interrupted."
            result = replace(result, not_checked=(*result.not_checked, note))
        elif code and not ledger.record.steps:
            note = (
                "The script ended with an error before its first step; what it says stands above."
            )
            result = replace(result, not_checked=(note,))
        as_json = "-" if form == "json" and as_json is None else as_json
        findings = _in_formats(result, name=script[0], fail_on=fail_on)
        _report(result, ledger.record, name=script[0], out=out, as_json=as_json, findings=findings)
        if twin is not None:
            from bathyscope.cli.twin_step import compare_first_step

            if isinstance(exchange, nullcontext):
                compared = compare_first_step(first, twin, start, script)
            else:
                compared = exchange.compare(ledger.record)
            print(printable(compared), file=sys.stderr, flush=True)
        if form in ("sarif", "junit", "github"):
            print_findings(findings, form)
        if not code and fail_if_severe(result.roots, fail_on):
            code = 3
    sys.exit(code)


def _misplaced(script: str, arguments: list[str]) -> str:
    """A note on options of `run` that were given behind a script which does not know them."""
    text = Path(script).read_text(encoding="utf-8", errors="replace")
    names = set(re.findall(r"\w+", text.replace("-", "_")))
    given = (argument.partition("=")[0] for argument in arguments)
    mine = [o for o in given if o in _OPTIONS and o.strip("-").replace("-", "_") not in names]
    if not mine:
        return ""
    return (
        f"Note: {mine[0]} stands after {script} and goes to the script; for bathyscope write it before: "
        f"bathyscope run {mine[0]} … {script}"
    )


def _exchange(ledger: "Ledger") -> "RankExchange":
    from bathyscope.cli.twin_ranks import RankExchange

    assert ledger.first_step is not None
    return RankExchange(ledger.first_step)


def _in_formats(result: "LoopDiagnosis", *, name: str, fail_on: str | None) -> "Findings":
    from bathyscope.report.ci_formats import Findings, by_depth

    missing = {f"not checked {number}": why for number, why in enumerate(result.not_checked, 1)}
    first = result.diagnosis
    return Findings(
        title=name,
        findings=by_depth(result.roots, () if first is None else first.blocks.rows),
        not_checked=missing,
        file=name,
        fail_on=Severity(fail_on or "problem"),
    )


def _report(
    result: "LoopDiagnosis",
    record: "LoopRecord",
    *,
    name: str,
    out: list[Path] | None,
    as_json: str | None,
    findings: "Findings",
) -> None:
    from bathyscope.cli.run_findings import finding_lines

    sys.stdout.flush()
    lines = ["", f"bathyscope run {name}: {_watched(record)}", *finding_lines(result, record)]
    lines += [f"Not checked: {note}" for note in result.not_checked]
    summary = printable("\n".join(lines))
    shown = wrapped(summary, terminal_width()) if sys.stderr.isatty() else summary
    print(shown, file=sys.stderr, flush=True)
    if out is not None or as_json is not None:
        from bathyscope.report.loop_page import LoopReport

        first = result.diagnosis
        report = LoopReport(
            name, _watched(record), record, result.findings, result.roots, result.not_checked,
            None if first is None else first.report(), result.at_constant,
        )  # fmt: skip
        if as_json == "-":
            print(printable_json(report.to_json()), flush=True)
        files = [*(out or ()), *(() if as_json in (None, "-") else (Path(str(as_json)),))]
        write_out(
            files,
            title=name,
            value=None,
            say=lambda: print(summary.strip()),
            save=report.save,
            saved={path.suffix.lower() for path in files} - {".txt"},
            findings=lambda: findings,
        )


def _watched(record: "LoopRecord") -> str:
    from bathyscope.report.numbers import amount

    models = [m.kind for m in record.models if m.is_trained and m.wrapper is None]
    stepped = [o for o in record.optimizers if o.steps]
    optimizers = [f"{o.kind} ({o.stepped_at})" for o in stepped[:4]]
    if not stepped:
        return "no step of an optimizer was seen"
    parts = [f"watched {amount(record.steps, 'step')} of {', '.join(optimizers)}"]
    if models:
        parts.append(f"on {', '.join(dict.fromkeys(models))}")
    schedules = [s.kind for s in record.schedules]
    if schedules:
        parts.append(f"with {', '.join(dict.fromkeys(schedules))}")
    return " ".join(parts)
