import errno
import io
import math
import os

import pytest

from bathyscope.core.errors import BathyscopeError
from bathyscope.core.files import DiskFull
from bathyscope.runs import MetricsWriter, read_metrics


def written(path, *records, **options):
    writer = MetricsWriter(path, **options)
    for record in records:
        writer.append(record)
    position = writer.flush(sync=True)
    writer.abandon()
    return position


def test_records_come_back_in_order_and_non_finite_ones_too(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = [{"step": 1, "loss": 0.1}, {"step": 2, "loss": math.inf, "note": "nan-free"}]
    written(path, *records)
    assert read_metrics(path) == records
    assert "Infinity" not in path.read_text()


def test_numbers_that_are_non_finite_are_written_wherever_they_stand(tmp_path):
    writer = MetricsWriter(tmp_path / "m.jsonl")
    writer.append({"step": 1, "numbers": {"loss": math.nan, "rates": [0.1, -math.inf]}})
    writer.flush()
    (record,) = read_metrics(tmp_path / "m.jsonl")
    assert record == {"step": 1, "numbers": {"loss": "nan", "rates": [0.1, "-inf"]}}


def test_opening_again_appends(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, {"a": 1})
    written(path, {"a": 2})
    assert read_metrics(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_half_written_last_line_is_dropped_by_reader_and_writer(tmp_path, cut):
    path = tmp_path / "metrics.jsonl"
    written(path, {"a": 1}, {"a": 22222})
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert read_metrics(path) == [{"a": 1}]
    written(path, {"a": 3})
    assert read_metrics(path) == [{"a": 1}, {"a": 3}]


def test_a_position_cuts_back(tmp_path):
    path = tmp_path / "metrics.jsonl"
    position = written(path, {"a": 1})
    written(path, {"a": 2}, {"a": 3})
    written(path, {"a": 9}, position=position)
    assert read_metrics(path) == [{"a": 1}, {"a": 9}]


def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(BathyscopeError, match="Line 2"):
        read_metrics(path)


def test_a_full_disk_cuts_back_to_the_last_whole_record(tmp_path):
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer.append({"a": 1})
    writer.flush()
    real = writer._file

    class Filling(io.RawIOBase):
        def write(self, data):
            if len(data) > 5:
                return real.write(data[:5])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fileno(self):
            return real.fileno()

    writer._file = Filling()
    writer.append({"a": 22222222})
    with pytest.raises(DiskFull):
        writer.flush()
    real.close()
    assert path.read_bytes() == b'{"a": 1}\n'


@pytest.mark.parametrize(
    ("damaged", "kept"),
    [
        (b'{"a": 1}\n{"a": \n{"a": 3}\n', [{"a": 1}]),
        (b"\x89PNG\xff\xfe", []),
        (b'{"a": 1}\n[1, 2]\n', [{"a": 1}]),
        (b'{"a": 1}\nnothing more', [{"a": 1}]),
    ],
)
def test_a_damaged_history_is_set_aside_and_said(tmp_path, damaged, kept):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(damaged)
    writer = MetricsWriter(path)
    assert "was damaged at line" in writer.note
    assert (tmp_path / "metrics.damaged.jsonl").read_bytes() == damaged
    writer.append({"a": 9})
    writer.flush()
    writer.abandon()
    assert read_metrics(path) == [*kept, {"a": 9}]


def test_a_history_shorter_than_the_checkpoint_says_is_told(tmp_path):
    path = tmp_path / "metrics.jsonl"
    position = written(path, {"a": 1}, {"a": 2})
    path.write_bytes(b'{"a": 1}\n')
    assert "9 of the 18 bytes" in MetricsWriter(path, position=position).note
