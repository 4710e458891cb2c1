"""A mutant whose line is gone is never put in: every row of the table fits its file, once."""

from pathlib import Path

from benchmarks.mutant_table import TABLE

ROOT = Path(__file__).resolve().parent.parent


def test_each_row_fits_one_line_and_its_tests_exist():
    stale = [
        (file, old)
        for rows in TABLE.values()
        for file, old, new in rows
        if (ROOT / "src/bathyscope" / file).read_text().count(old) != 1 or old == new
    ]
    assert not stale
    assert not [
        name
        for named in TABLE
        for name in named.split()
        if not (ROOT / name.partition("::")[0]).exists()
    ]
