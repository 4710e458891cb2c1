"""Metrics as append-only JSON lines: cheap to write, safe to lose the end of."""

import json
import math
import os
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from bathyscope.core.errors import BathyscopeError
from bathyscope.runs.atomic import disk_full_named

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsWriter:
    """Appends records to a JSON-lines file; they stay in memory until `flush`.

    Args:
        path: the file. A half-written last line is cut off when it is opened.
        position: keep only this many bytes of what is there (a checkpoint's position); all for None.
    """

    def __init__(self, path: Path, *, position: int | None = None) -> None:
        self.path = path
        self._pending: list[Mapping[str, Any]] = []
        self._file = path.open("ab", buffering=0)  # a buffer would try again to write when closed
        end = _whole_lines(path)
        self._end = end if position is None else min(position, end)
        os.ftruncate(self._file.fileno(), self._end)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record. Non-finite numbers are kept, as the strings `nan`, `inf` and `-inf`."""
        self._pending.append(record)

    def flush(self, *, sync: bool = False) -> int:
        """Write what is pending; return the length of the file. With `sync`, also fsync.

        Raises:
            DiskFull: there is no room; the file is cut back to its last whole record.
        """
        if self._file.closed:
            return self._end
        if self._pending:
            lines = b"".join(_line(record) for record in self._pending)
            try:
                with disk_full_named(self.path):
                    _write_all(self._file, lines)
            except BathyscopeError:
                os.ftruncate(self._file.fileno(), self._end)
                raise
            self._pending.clear()
            self._end += len(lines)
        if sync:
            with disk_full_named(self.path):
                os.fsync(self._file.fileno())
        return self._end

    def abandon(self) -> None:
        """Close without writing what is pending."""
        self._pending.clear()
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every whole record of the file, in order; a half-written last line is dropped.

    Raises:
        BathyscopeError: a line before the last is no JSON object.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
        >>> _ = path.write_text('{"step": 1, "loss": "nan"}\\n{"step": 2, "lo')
        >>> read_metrics(path)
        [{'step': 1, 'loss': nan}]
    """
    if not path.exists():
        return []
    records = []
    lines = path.read_bytes()[: _whole_lines(path)].splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append({k: _number(v) for k, v in record.items()})
        elif number < len(lines):
            raise BathyscopeError(
                f"Line {number} of {path} is no JSON object; the file was edited or damaged."
            )
    return records


def _write_all(file: RawIOBase, contents: bytes) -> None:
    """A raw write may take only a part, as it does where the disk fills up."""
    rest = memoryview(contents)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(record, allow_nan=False)
    except ValueError:  # NaN and Inf are not JSON
        text = json.dumps({k: _portable(v) for k, v in record.items()}, allow_nan=False)
    return text.encode() + b"\n"


def _portable(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _whole_lines(path: Path) -> int:
    """Bytes up to and with the last newline."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
