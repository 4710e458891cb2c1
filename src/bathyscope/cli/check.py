"""`bathyscope check`: do the claims of the papers hold?"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bathyscope.cli.listings import claim_row, claim_rows
from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.cli.screen import echo
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import ClaimCheck, Verdict

if TYPE_CHECKING:
    from bathyscope.claims import Claim

_SEVERITY = [
    Verdict.HOLDS,
    Verdict.HOLDS_UNDER,
    Verdict.INAPPLICABLE,
    Verdict.NOT_SUPPORTED,
    Verdict.VIOLATED,
]


@with_options(without=("model",), batch_size=200)
def check(
    text: CommandOptions,
    what: Annotated[
        str,
        typer.Argument(metavar="list|ID|THEME|all", help="list, all, a theme, or a claim's name."),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="Test it on this network: a catalog name or package.module:factory."),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            help="Where the claims are checked, with `all` or a theme: local (here, one by one), dask, "
            "dask://host:port, slurm, or submitit."
        ),
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes started here, for --on dask.")
    ] = None,
    publish: Annotated[
        Path | None, typer.Option(help="Also write the verdicts into this folder.")
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="Exit with code 3 from this verdict on: holds-under, inapplicable, "
            "not-supported-here or violated."
        ),
    ] = None,
    out: OutFiles = None,
) -> None:
    """Test the claims of the papers, one by one, and say which hold.

    A statement that asserts nothing measurable is listed as such. Claims that speak of any network
    or any data take yours with --model and --data.

    Example: bathyscope check list

    Example: bathyscope check nests.theorem_1 --seed 3

    Example: bathyscope check all --json --fail-on violated

    Example: bathyscope check all --on dask --workers 8
    """
    # long: most of it is the options, one per line
    limit = _limit(fail_on)
    if what == "list":
        rows = claim_rows()
        text.answer(rows, lambda: _print_list(rows))
        write_out(out, title="statements of the papers", value=rows, say=lambda: _print_list(rows))
        return
    from bathyscope.claims import all_claims, claim_of, claims_of

    chosen = list((all_claims() if what == "all" else claims_of(what)).values())
    one = not chosen
    chosen = chosen or [claim_of(what)]
    if not one and (model or "data" in text.given):
        raise UsageError("--model and --data go with one claim; name it.")
    given = _network_and_data(chosen[0], model, text) if one else {}
    aloud = text.as_json != Path("-")
    if on != "local" and one:
        raise UsageError("--on goes with `all` or a theme: one claim is checked here.")
    if on == "local":
        records = _check_all(chosen, seed=text.seed, given=given, insist=one, echo=aloud)
    else:
        records = _check_elsewhere(chosen, on, seed=text.seed, workers=workers, echo=aloud)
    rows = [{**claim_row(claim), **_record(record)} for claim, record in records]
    if publish:
        _publish([record for _, record in records if record is not None], publish)
    value = rows[0] if one else rows
    text.answer(value, lambda: None if one else _print_summary(rows))
    write_out(out, title=what, value=value, say=lambda: _print_all(records, rows))
    result = [_SEVERITY.index(Verdict(row["verdict"])) for row in rows if row["verdict"]]
    if limit is not None and result and max(result) >= limit:
        raise typer.Exit(3)


def _limit(fail_on: str | None) -> int | None:
    names = [verdict.value.replace(" ", "-") for verdict in _SEVERITY]
    if fail_on is not None and fail_on not in names[1:]:
        raise UnknownName("verdict to fail on", fail_on, names[1:])
    return None if fail_on is None else names.index(fail_on)


def _network_and_data(claim: "Claim", model: str | None, text: CommandOptions) -> JsonObject:
    """The user's network and data, from their names; a network comes with data where both are taken."""
    if model is None and "data" not in text.given:
        return {}
    import torch

    from bathyscope.cli.build import batch_of

    torch.manual_seed(text.seed)
    result: dict[str, object] = {}
    if model is not None:
        setup = text.setup(model)
        result["model"], batch = setup.model, setup.batch
    else:
        batch = batch_of(text.data, text.batch_size, text.seed)[0]
    if "data" in text.given or "data" in claim.takes:
        result["data"] = batch
    return result


def _check_all(
    claims: "list[Claim]", *, seed: int, given: JsonObject, insist: bool, echo: bool
) -> "list[tuple[Claim, ClaimCheck | None]]":
    """Every claim with its record; None for those without a check (an error if `insist`)."""
    from bathyscope.claims.sharing import keep_measurements
    from bathyscope.cli.screen import spinner

    rows: list[tuple[Claim, ClaimCheck | None]] = []
    with spinner("checking") as say, keep_measurements():
        for claim in claims:
            if claim.measure is None and not insist:
                rows.append((claim, None))
                continue
            say(claim.name)
            record = _check_one(claim.name, seed=seed, **given)
            rows.append((claim, record))
            if echo:
                _print_check(record, short=not insist)
    return rows


def _check_elsewhere(
    claims: "list[Claim]", on: str, *, seed: int, workers: int | None, echo: bool
) -> "list[tuple[Claim, ClaimCheck | None]]":
    """Every claim with its record, had from the workers of a cluster, in the order of the claims."""
    from bathyscope.cli.screen import spinner
    from bathyscope.sweep import backend_of, map_over

    coded = [claim.name for claim in claims if claim.measure is not None]
    with spinner("checking") as say:
        done: list[str] = []

        def notify(name: str, record: ClaimCheck) -> None:
            done.append(name)
            say(f"{len(done)} of {len(coded)}, {name}")
            if echo:
                _print_check(record, short=True)

        backend = backend_of(on, workers=workers)
        records = map_over(partial(_check_one, seed=seed), coded, backend=backend, on_result=notify)
    result = dict(zip(coded, records, strict=True))
    return [(claim, result.get(claim.name)) for claim in claims]


def _check_one(name: str, *, seed: int, **given: Any) -> ClaimCheck:
    """One claim on one thread: a sum over more would round otherwise on another machine."""
    import torch

    from bathyscope.claims import check as test

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return test(name, seed=seed, **given)
    finally:
        torch.set_num_threads(threads)


def _publish(records: list[ClaimCheck], folder: Path) -> None:
    from bathyscope import studies
    from bathyscope.runs.manifest import commit_of

    studies.publish_claims(records, folder, commit=commit_of("."))


def _record(record: ClaimCheck | None) -> JsonObject:
    if record is None:
        return {"verdict": None}
    from bathyscope.core.json_values import encode_json

    return {
        "verdict": record.verdict.value,
        "extra_assumption": record.extra_assumption,
        "corrected": record.corrected,
        "vacuous": record.vacuous,
        "definition": record.definition,
        "assumptions": [
            {"statement": a.statement, "holds": a.holds, "value": encode_json(a.value)}
            for a in record.assumptions
        ],
        "numbers": encode_json(record.numbers),
        "settings": encode_json(record.settings),
    }


def _print_list(rows: list[dict[str, object]]) -> None:
    for row in rows:
        mark = "" if row["status"] == "coded" else f"  [{row['status']}]"
        echo(f"{row['claim']}{mark}\n    {row['statement']}")
    coded = sum(row["status"] == "coded" for row in rows)
    echo(f"{len(rows)} statements, {coded} coded.")


def _print_all(
    records: "list[tuple[Claim, ClaimCheck | None]]", rows: list[dict[str, object]]
) -> None:
    """Everything at once that a terminal shows one by one."""
    for _, record in records:
        if record is not None:
            _print_check(record, short=len(records) > 1)
    if len(records) > 1:
        _print_summary(rows)


def _print_check(record: ClaimCheck, *, short: bool) -> None:
    echo(f"{record.claim}: {record.in_words}")
    if record.extra_assumption:
        echo(f"    under: {record.extra_assumption}")
    if record.corrected:
        echo(f"    instead: {record.corrected}")
    if short:
        return
    echo(f"    {record.statement}")
    for assumption in record.assumptions:
        value = "" if assumption.value is None else f" ({assumption.value})"
        echo(f"    {'✓' if assumption.holds else '✗'} {assumption.statement}{value}")
    for group, relations in record.numbers["relations"].items():
        echo(f"  {_GROUPS[group]}")
        for relation in relations:
            mark = "✓" if relation["holds"] else "✗"
            echo(
                f"    {mark} {relation['what']}: "
                f"{relation['left']:.4g} {relation['sense']} {relation['right']:.4g}"
            )
    echo("  numbers")
    for key, value in record.numbers.items():
        if key != "relations":
            echo(f"    {key}: {_short(value)}")


_GROUPS = {
    "printed": "as printed",
    "under": "with the extra assumption",
    "strict": "in a stricter reading",
    "corrected": "as corrected",
    "vacuous": "it says nothing where",
}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return " ".join(_short(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_short(item)}" for key, item in value.items())
    return str(value)


def _print_summary(rows: list[dict[str, object]]) -> None:
    for row in rows:
        if row["verdict"] is None:
            echo(f"{row['claim']}: {row['status']}")
    counts = [
        f"{sum(row['verdict'] == verdict.value for row in rows)} {verdict.value}"
        for verdict in _SEVERITY
    ]
    without = sum(row["verdict"] is None for row in rows)
    echo(f"{len(rows)} statements: {', '.join(counts)}, {without} without a check.")
