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
from bathyscope.foresight.table.draw import VERSION
from bathyscope.foresight.table.labels import label
from bathyscope.runs import Configuration, open_run, read_run
from bathyscope.sweep import Backend, Tally, sweep

PART = 50
"""Networks in a part."""

Row = JsonObject


class Labelling(Configuration):
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


def work(configuration: Labelling, folder: Path) -> None:
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
    on_change: Callable[[Tally], None] = lambda tally: None,
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
    left = [Labelling(number=number) for number in numbers if number not in known]
    make_folder(parts)

    def store(tally: Tally) -> None:
        if tally.done % 10 == 0 or tally.done == tally.total:
            gather(runs, parts)
        on_change(tally)

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
        UsageError: a line is no row.
    """
    for path in sorted(parts.glob(f"{kind}-*.jsonl")):
        for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                row["number"]
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"Line {place} of {path} is no row of the table: {error}; "
                    "take the line out, and the network is made again."
                ) from None
            yield row


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """One row a line, nothing half-written."""
    lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    write_atomic(path, "".join(lines).encode())
