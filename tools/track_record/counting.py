"""Diagnose every labeled network of the forecast's table, and count how those with a finding ended."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bathyscope import measure
from bathyscope.core.blocks import blocks_of
from bathyscope.core.files import write_atomic
from bathyscope.core.records import Severity
from bathyscope.rules.evidence import evidence_of
from bathyscope.rules.findings import BUDGET, Records, TrackRecord, apply_rules
from bathyscope.rules.registry import all_thresholds
from bathyscope.rules.rule import Thresholds
from tools.forecast_table.draw import draw
from tools.forecast_table.labels import batches, optimizer_of, outcome
from tools.forecast_table.networks import network
from tools.forecast_table.parts import PART, PARTS, Row, read_rows, write_rows
from tools.forecast_table.tasks import task


def severities_of(number: int) -> dict[str, str]:
    """The highest severity of each code that a random network shows at its start, by the rules alone."""
    drawn = draw(number)
    model, batch = network(drawn), next(batches(drawn, seed=0))
    blocks = blocks_of(model, batch[0])
    measured = measure.standard(
        model,
        batch,
        loss=task(drawn.task).loss,
        optimizer=optimizer_of(drawn, model),
        blocks=blocks,
    )
    result = apply_rules(evidence_of(blocks, measured, batch), Thresholds.of(None))
    return {f.code: f.severity.value for f in sorted(result, key=lambda f: f.severity.rank)}


def summary(rows: Iterable[Row], result: Mapping[int, Mapping[str, str]]) -> Records:
    """The records of all codes.

    Args:
        rows: labeled networks.
        result: by number, what `severities_of` gave.
    """
    ends: dict[str, dict[str, list[tuple[str, bool]]]] = {}
    for row in rows:
        reported = result.get(row["number"], {})
        most_severe = max((Severity(given).rank for given in reported.values()), default=0)
        for code, severity in reported.items():
            end = outcome(row, BUDGET), Severity(severity).rank == most_severe
            ends.setdefault(code, {}).setdefault(severity, []).append(end)
    return {
        code: {severity: _record(seen) for severity, seen in sorted(kinds.items())}
        for code, kinds in sorted(ends.items())
    }


def _record(ends: Sequence[tuple[str, bool]]) -> TrackRecord:
    """The counts of some outcomes, each with whether nothing graver was found."""
    all_ends = [end for end, _ in ends]
    alone = [end for end, most_severe in ends if most_severe]
    return TrackRecord(
        len(all_ends),
        all_ends.count("fails"),
        all_ends.count("trains"),
        len(alone),
        alone.count("fails"),
    )


def diagnose_table(parts: Path = PARTS, *, again: bool = False) -> tuple[int, Records]:
    """Diagnose every labeled network that has not been with today's thresholds, and count.

    Held-out networks are left alone.
    """
    rows = [row for row in read_rows(parts) if not draw(row["number"]).held_out]
    state = _thresholds_hash()
    written = () if again else read_rows(parts, kind="findings")
    known = {r["number"]: r["found"] for r in written if r.get("thresholds") == state}
    for part in sorted({row["number"] // PART for row in rows}):
        inside = [row["number"] for row in rows if row["number"] // PART == part]
        missing = [number for number in inside if number not in known]
        known |= {number: severities_of(number) for number in missing}
        if missing:
            kept = ({"number": n, "thresholds": state, "found": known[n]} for n in inside)
            write_rows(parts / f"findings-{part:03d}.jsonl", kept)
    return len(rows), summary(rows, known)


def _thresholds_hash() -> str:
    """Twelve hexadecimal digits that change with any threshold."""
    values = {name: threshold.value for name, threshold in sorted(all_thresholds().items())}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


def write_records(networks: int, records: Records, path: Path) -> None:
    """Write the counts as JSON."""
    codes = {
        code: {severity: asdict(record) for severity, record in kinds.items()}
        for code, kinds in records.items()
    }
    form = {"networks": networks, "budget": BUDGET, "codes": codes}
    write_atomic(path, json.dumps(form, indent=1).encode() + b"\n")
