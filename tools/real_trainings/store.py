"""Part files of records: at most 50 rows each, every row written whole or not at all."""

import json
import os
from pathlib import Path

from tools.real_trainings.case import TABLE
from tools.real_trainings.record import Record

ROWS_PER_PART = 50


def part_files(folder: Path = TABLE) -> list[Path]:
    """The part files, in order."""
    return sorted(folder.glob("part-*.jsonl"))


def read_records(folder: Path = TABLE) -> list[Record]:
    """All records; a torn last line, as a crash of the machine may leave, is left out."""
    records = []
    for path in part_files(folder):
        for line in path.read_text().splitlines():
            try:
                fields = json.loads(line)
            except json.JSONDecodeError:
                continue
            records.append(Record(**fields))
    return records


def append_record(record: Record, folder: Path = TABLE) -> Path:
    """Add a record to the last part, or to a new one where that is full.

    The part is written to a file beside it, which then takes its place, so that a reader or a
    killed writer never leaves half a row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = part_files(folder)
    rows = parts[-1].read_text().splitlines() if parts else []
    if parts and len(rows) < ROWS_PER_PART:
        path = parts[-1]
    else:
        path, rows = folder / f"part-{len(parts):03d}.jsonl", []
    rows.append(json.dumps(record.as_json()))
    beside = path.with_suffix(".partial")
    with beside.open("w") as file:
        file.write("\n".join(rows) + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path
