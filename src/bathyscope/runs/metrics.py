"""Metrics as append-only JSON lines: cheap to write, safe to lose the end of."""

import json
import math
import os
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path

from bathyscope.core.errors import BathyscopeError
from bathyscope.core.files import explain_write_errors, open_appending, write_atomic
from bathyscope.core.json_values import JsonMapping, name_non_finite

_LONGEST_HALF = 1 << 20  # bytes that a crash may leave of the lines that were being written
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class MetricsWriter:
    """Appends records to a JSON-lines file; they stay in memory until `flush`.

    Args:
        path: the file. A half-written last line is cut off when it is opened.
        position: keep only this many bytes of what is there (a checkpoint's position); all for None.

    Attributes:
        note: what was lost, where the file was found damaged; it then lies beside, as it was.

    Raises:
        UsageError: the file is a link, or cannot be written.
    """

    def __init__(self, path: Path, *, position: int | None = None) -> None:
        self.path = path
        self._pending: list[Mapping[str, object]] = []
        # unbuffered: a buffer would try again to write when closed
        self._file = os.fdopen(open_appending(path), "ab", buffering=0)
        self.note = _set_damage_aside(path)
        end = _whole_lines(path)
        if position is not None and position > end and not self.note:
            self.note = (
                f"{path.name} has {end} of the {position} bytes it had at the checkpoint: "
                "the rest of its history is lost."
            )
        self._end = end if position is None else min(position, end)
        os.ftruncate(self._file.fileno(), self._end)

    def append(self, record: JsonMapping) -> None:
        """Add a record. Non-finite numbers are kept, as the strings `nan`, `inf` and `-inf`."""
        self._pending.append(record)

    def forget(self) -> None:
        """Let go of what is pending."""
        self._pending.clear()

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
                with explain_write_errors(self.path):
                    _write_all(self._file, lines)
            except BathyscopeError:
                os.ftruncate(self._file.fileno(), self._end)
                raise
            self._pending.clear()
            self._end += len(lines)
        if sync:
            with explain_write_errors(self.path):
                os.fsync(self._file.fileno())
        return self._end

    def abandon(self) -> None:
        """Close without writing what is pending."""
        self._pending.clear()
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, object]]:
    """Every whole record of the file, in order; a half-written last line is dropped.

    Raises:
        BathyscopeError: a whole line is not a JSON object.

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
        if not _is_record(line):
            raise BathyscopeError(
                f"Line {number} of {path} is not a JSON object; the file was edited or damaged."
            )
        records.append({k: _number(v) for k, v in json.loads(line).items()})
    return records


def _set_damage_aside(path: Path) -> str:
    """Keep a copy of a file with a damaged line and cut it off there; return what was done."""
    contents = path.read_bytes()
    good = 0
    for line in contents.splitlines(keepends=True):
        half = not line.endswith(b"\n") and len(contents) - good < _LONGEST_HALF
        if half and line[:1] in (b"{", b"\0"):
            return ""  # a last line that was not written to its end, as a crash leaves it
        if not _is_record(line):
            aside = path.with_name(f"{path.stem}.damaged{path.suffix}")
            write_atomic(aside, contents)
            os.truncate(path, good)
            number = contents[:good].count(b"\n") + 1
            return (
                f"{path.name} was damaged at line {number}: {len(contents) - good} bytes of its "
                f"history were set aside in {aside.name}."
            )
        good += len(line)
    return ""


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _write_all(file: RawIOBase, contents: bytes) -> None:
    """A raw write may take only a part, as it does where the disk fills up."""
    rest = memoryview(contents)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _line(record: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(record, allow_nan=False)
    except ValueError:  # NaN and Inf are not JSON
        text = json.dumps(name_non_finite(record), allow_nan=False)
    return text.encode() + b"\n"


def _number(value: object) -> object:
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def _whole_lines(path: Path) -> int:
    """Bytes up to and with the last newline."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            result = file.read(end - start).rfind(b"\n")
            if result >= 0:
                return start + result + 1
            end = start
    return 0
