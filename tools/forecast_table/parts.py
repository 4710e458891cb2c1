"""The table on disk: run folders while it is made, parts of fifty networks once they are."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field

from bathyscope.core.errors import UsageError
from bathyscope.core.files import make_folder, write_atomic
from bathyscope.core.json_values import JsonObject
from bathyscope.runs import Configuration, open_run, read_run
from bathyscope.sweep import Backend, Tally, sweep
from tools.forecast_table.draw import VERSION
from tools.forecast_table.labels import label

PARTS = Path(__file__).parents[2] / "docs" / "forecast"
"""Folder of the table in the repository."""

PART = 50
"""Networks in a part."""

Row = JsonObject


class Labeling(Configuration):
    """One network of the table.

    Attributes:
        number: whose draw it is.
        version: of the law of the draws.
    """

    number: Annotated[int, Field(ge=0)]
    version: int = VERSION

    def prefix(self) -> str:
        """`network-00042`."""
        return f"network-{self.number:05d}"


def work(configuration: Labeling, folder: Path) -> None:
    """Label one network in its run folder."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # fading signals end in numbers that a CPU is slow on
    try:
        with open_run(folder, configuration, seeds=(configuration.number,)) as run:
            run.log(label(configuration.number))
            run.end("finished")
    finally:
        torch.set_flush_denormal(False)


def label_all(
    numbers: Iterable[int],
    *,
    parts: Path,
    runs: Path,
    backend: Backend,
    on_change: Callable[[Tally], None] = lambda summary: None,
) -> int:
    """Label every network that neither the parts nor the run folders hold, and write the parts.

    Args:
        numbers: of the networks.
        parts: folder of the parts; they grow as networks end.
        runs: folder of the run folders.
        backend: where to run.
        on_change: called whenever a network ends.

    Returns:
        How many networks the parts hold now.
    """
    known = {row["number"] for row in read_rows(parts)} if parts.is_dir() else set()
    left = [Labeling(number=number) for number in numbers if number not in known]
    make_folder(parts)

    def store(summary: Tally) -> None:
        if summary.done % 10 == 0 or summary.done == summary.total:
            gather(runs, parts)
        on_change(summary)

    if left:
        sweep(work, left, out=runs, backend=backend, on_change=store)
    return gather(runs, parts)


def gather(runs: Path, parts: Path) -> int:
    """Move the rows of all ended runs into their parts; the number of rows that the parts hold."""
    rows = {row["number"]: row for row in read_rows(parts)}
    before = set(rows)
    for folder in sorted(runs.glob("network-*")) if runs.is_dir() else ():
        if int(folder.name.split("-")[1]) in rows:
            continue
        configuration, manifest, metrics = read_run(folder)
        if manifest.status == "finished" and configuration["version"] == VERSION:
            rows[configuration["number"]] = metrics[-1]
    for part in {number // PART for number in set(rows) - before}:
        inside = [rows[n] for n in sorted(rows) if n // PART == part]
        write_rows(parts / f"part-{part:03d}.jsonl", inside)
    return len(rows)


def read_rows(parts: Path, *, kind: str = "part") -> Iterator[Row]:
    """Every row of a folder of parts, in their order; labels, or `features`.

    Raises:
        UsageError: a line is not a row.
    """
    for path in sorted(parts.glob(f"{kind}-*.jsonl")):
        for location, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                row["number"]
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"Line {location} of {path} is not a row of the table: {error}; "
                    "take the line out, and the network is made again."
                ) from None
            yield row


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """One row per line, nothing half-written."""
    lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    write_atomic(path, "".join(lines).encode())
