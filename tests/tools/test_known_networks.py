"""The README's table of well-known networks says what was measured."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def row_of(row):
    """A row of the table, from what was measured."""
    millions = f"{row['parameters'] / 1e6:.1f} M"
    verdict = "; ".join(row["findings"]).replace("warning ", "warning: ") or row["verdict"]
    numbers = f"{row['seconds']:.0f} s | {row['megabytes'] / 1024:.1f} GB"
    return f"| {row['network']} | {millions} | {row['blocks']} | {row['batch']} | {verdict} | {numbers} |"


def test_the_readme_has_every_row():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = json.loads((ROOT / "docs" / "known-networks.json").read_text(encoding="utf-8"))
    assert len(rows) == 5
    assert [row_of(row) for row in rows if row_of(row) not in text] == []
