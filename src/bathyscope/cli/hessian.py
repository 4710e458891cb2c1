"""`bathyscope hessian`: the curvature of a network's loss, with its uncertainty."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bathyscope.cli.options import CommandOptions, with_options
from bathyscope.cli.out import OutFiles, write_out
from bathyscope.core.json_values import JsonObject

if TYPE_CHECKING:
    from rich.console import Console

    from bathyscope.core import Measurement
    from bathyscope.curvature import CurvatureMatrix
    from bathyscope.linalg import Eigenpairs


_PRODUCTS = {
    "extremes": "for the ends",
    "check_for_copies": "to look for repeated eigenvalues",
    "matrix": "for the whole matrix",
    "density": "for the density",
    "by_block": "for the blocks",
}


@with_options(batch_size=256)
def hessian(
    text: CommandOptions,
    k: Annotated[int, typer.Option("-k", min=1, help="Eigenvalues at each end.")] = 5,
    matrix: Annotated[
        Literal["hessian", "gauss-newton"], typer.Option(help="Which curvature matrix.")
    ] = "hessian",
    batchnorm: Annotated[
        Literal["batch", "running"], typer.Option(help="Statistics that BatchNorm uses.")
    ] = "batch",
    parameters: Annotated[
        list[str] | None, typer.Option(help="Names or globs of the parameters; all without.")
    ] = None,
    by_block: Annotated[
        bool, typer.Option("--by-block", help="Also the diagonal block of every block.")
    ] = False,
    vectors: Annotated[int, typer.Option(min=2, help="Random vectors of density and trace.")] = 8,
    lanczos: Annotated[int, typer.Option(min=1, help="Lanczos iterations of each of them.")] = 40,
    out: OutFiles = None,
) -> None:
    """Extreme eigenvalues, trace, condition number and index of the Hessian, each with its error.

    What the products cannot resolve is refused with the reason.

    Example: bathyscope hessian resnet-20 --data digits -k 3 --by-block
    """
    from bathyscope import curvature

    setup, seed = text.setup(), text.seed
    make = curvature.hessian if matrix == "hessian" else curvature.gauss_newton
    outcome = make(
        setup.model,
        setup.batches(),
        loss=setup.loss,
        batchnorm=batchnorm,
        parameters=parameters or None,
        progress=True,
    )
    result = _answers(outcome, k=k, probes=vectors, steps=lanczos, seed=seed)
    if by_block or setup.blocks:
        before = outcome.num_products
        result["by_block"] = _table(outcome.by_block(blocks=setup.blocks, seed=seed))
        result["num_products"]["by_block"] = outcome.num_products - before
    result["num_products"]["all"] = outcome.num_products
    result["notes"] = list(outcome.notes)
    text.answer(result, lambda: _print(result))
    title = f"{matrix} of {text.model}"
    write_out(out, title=title, value=result, say=lambda: _print(result))


def _answers(
    result: "CurvatureMatrix", *, k: int, probes: int, steps: int, seed: int
) -> JsonObject:
    """Exact where the matrix is small enough to be formed, otherwise from one density."""
    from bathyscope.curvature import EXACT_UP_TO

    ends = result.extremes(k, seed=seed)
    made = {"extremes": ends.products, "check_for_copies": ends.check_products}
    density = None
    if result.shape[0] <= EXACT_UP_TO:
        before = result.num_products
        trace = {"value": float(result.eigenvalues().sum()), "standard_error": 0.0}
        made |= {"matrix": result.num_products - before, "density": 0}
    else:
        density = result.density(probes=probes, steps=steps, seed=seed)
        trace = {"value": density.trace.value, "standard_error": density.trace_standard_error}
        made |= {"matrix": 0, "density": density.products}
    return {
        "matrix": repr(result),
        "num_parameters": result.shape[0],
        "products": str(result.plan),
        "largest": _side(ends.largest),
        "smallest": _side(ends.smallest),
        "trace": trace,
        "condition_number": _or_refused(lambda: result.condition_number(density=density)),
        "negative_index": _or_refused(lambda: result.negative_index(density=density)),
        "num_products": made,
    }


def _side(pairs: "Eigenpairs") -> list[dict[str, object]]:
    columns = (pairs.values.tolist(), pairs.errors.tolist(), pairs.residuals.tolist())
    return [
        {"value": v, "error": e, "residual": r, "converged": c}
        for v, e, r, c in zip(*columns, pairs.converged, strict=True)
    ]


def _or_refused(ask: Callable[[], Any]) -> dict[str, object]:
    """The record as a dict, or the reason for which it was refused with the bounds known."""
    from dataclasses import asdict

    from bathyscope.curvature import Unresolved

    try:
        return asdict(ask())
    except Unresolved as refusal:
        upper = None if math.isinf(refusal.upper) else refusal.upper
        return {"refused": str(refusal), "lower": refusal.lower, "upper": upper}


def _table(measured: "Measurement") -> JsonObject:
    labels = [block.label for block in measured.blocks]
    return {
        "rows": [
            {"block": label, **{name: column[i] for name, column in measured.columns.items()}}
            for i, label in enumerate(labels)
        ],
        "notes": list(measured.notes),
    }


def _print(result: JsonObject) -> None:
    from rich.table import Table

    from bathyscope.core.terminal import guarded

    console = guarded()
    console.print(result["matrix"], markup=False)
    console.print(f"products: {result['products']}", markup=False)
    table = Table("", "eigenvalue", "± error", "residual")
    for name in ("largest", "smallest"):
        for row in result[name]:
            mark = "" if row["converged"] else " (not converged)"
            table.add_row(
                name, f"{row['value']:.6g}{mark}", f"{row['error']:.1g}", f"{row['residual']:.1g}"
            )
    console.print(table)
    trace, exact = result["trace"], not result["num_products"]["density"]
    error = "(exact)" if exact else f"± {trace['standard_error']:.2g} (standard error)"
    console.print(f"trace: {trace['value']:.5g} {error}")
    for key, name, field in (
        ("condition_number", "condition number (|λ|max over the 10th percentile of |λ|)", "value"),
        ("negative_index", "fraction of negative eigenvalues", "fraction"),
    ):
        entry = result[key]
        if "refused" in entry:
            console.print(f"{name}: refused. {entry['refused']}", markup=False)
        else:
            how = "exact" if entry["exact"] else f"{entry['lower']:.3g} to {entry['upper']:.3g}"
            console.print(
                f"{name}: {entry[field]:.4g} ({how}; tolerance {entry['tolerance']:.2g})",
                markup=False,
            )
    if "by_block" in result:
        _print_blocks(console, result["by_block"])
    made = result["num_products"]
    parts = [f"{made[key]} {text}" for key, text in _PRODUCTS.items() if made.get(key)]
    console.print(f"{made['all']} products: {', '.join(parts)}")
    for note in result["notes"]:
        console.print(f"note: {note}", markup=False)


def _print_blocks(console: "Console", blocks: JsonObject) -> None:
    from rich.table import Table

    names = ("largest", "smallest", "trace", "condition_number", "negative_index")
    table = Table("block", "parameters", *names)
    for row in blocks["rows"]:
        cells = ["refused" if row[n] is None else f"{row[n]:.4g}" for n in names]
        table.add_row(row["block"], str(row["num_parameters"]), *cells)
    console.print(table)
    for note in blocks["notes"]:
        console.print(f"note: {note}", markup=False)
