"""The track record of findings: how often random networks that had one really failed to train.

    python -m bathyscope.diagnosis

diagnoses every labelled network of the forecast's table as it starts, goes on where it stopped, and
writes the counts beside this file.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.files import write_atomic
from bathyscope.core.records import Finding, Severity

if TYPE_CHECKING:
    from bathyscope.foresight.table.parts import Row

FILE = "track_record.json"
PARTS = Path("docs/forecast")
BUDGET = 300

ENOUGH = 20
"""Networks below which a code has no record of its own, only the tests with planted faults."""

PROBLEM = 0.9
"""Share of the networks that failed from which on a finding is a problem."""


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """How the networks with a finding of one code and severity ended within 300 steps.

    Attributes:
        networks: with the finding.
        failed: of these.
        trained: of these.
        alone: of these, nothing graver was found in them.
        alone_failed: of those.
    """

    networks: int
    failed: int
    trained: int
    alone: int = 0
    alone_failed: int = 0

    def severity(self, given: Severity) -> Severity:
        """The severity that follows: a problem where nine in ten failed, and only there.

        What the rule holds for less is raised by networks with nothing graver alone: where a problem
        stands beside it, the failure may be the problem's.

        Examples:
            >>> TrackRecord(40, 39, 1, alone=30, alone_failed=29).severity(Severity.WARNING).value
            'problem'
            >>> TrackRecord(40, 39, 1, alone=2, alone_failed=2).severity(Severity.WARNING).value
            'warning'
            >>> TrackRecord(40, 20, 9).severity(Severity.PROBLEM).value
            'warning'
            >>> TrackRecord(4, 1, 3).severity(Severity.PROBLEM).value
            'problem'
        """
        if given is Severity.PROBLEM:
            holds = self.networks < ENOUGH or self.failed >= PROBLEM * self.networks
            return given if holds else Severity.WARNING
        raised = self.alone >= ENOUGH and self.alone_failed >= PROBLEM * self.alone
        return Severity.PROBLEM if raised else given


Records = Mapping[str, Mapping[str, TrackRecord]]
"""By code, then by the severity that the rule gave."""


def judge_by_record(findings: Iterable[Finding], records: Records | None = None) -> list[Finding]:
    """The findings with the severities that follow from their track records."""
    known = track_records() if records is None else records
    judged = []
    for found in findings:
        record = known.get(found.code, {}).get(found.severity.value)
        severity = found.severity if record is None else record.severity(found.severity)
        judged.append(found if severity is found.severity else replace(found, severity=severity))
    return judged


def record_in_words(code: str, records: Records | None = None) -> str:
    """What became of the networks with a finding, as a sentence."""
    known = (track_records() if records is None else records).get(code, {})
    if sum(record.networks for record in known.values()) < ENOUGH:
        return "Planted tests only."
    told = [
        f"{record.failed} of {record.networks} random networks with it as a {severity} failed "
        f"to train within {BUDGET} steps, {record.trained} trained"
        for severity, record in known.items()
        if record.networks
    ]
    return "; ".join(told) + "."


@cache
def track_records() -> Records:
    """Those that come with the package; none where the table has not been diagnosed yet."""
    path = resources.files("bathyscope.diagnosis").joinpath(FILE)
    if not path.is_file():
        return {}
    written = json.loads(path.read_text(encoding="utf-8"))["codes"]
    return {
        code: {severity: TrackRecord(**counts) for severity, counts in kinds.items()}
        for code, kinds in written.items()
    }


def severities_found(number: int) -> dict[str, str]:
    """The gravest severity of each code that a random network shows at its start, by the rules alone."""
    from bathyscope import measure
    from bathyscope.core.blocks import blocks_of
    from bathyscope.diagnosis.evidence import evidence_of
    from bathyscope.diagnosis.rules import findings_of_rules
    from bathyscope.diagnosis.thresholds import Thresholds
    from bathyscope.foresight.table.draw import draw
    from bathyscope.foresight.table.labels import batches, optimizer_of
    from bathyscope.foresight.table.networks import network
    from bathyscope.foresight.table.tasks import task

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
    found = findings_of_rules(evidence_of(blocks, measured, batch), Thresholds.of(None))
    return {f.code: f.severity.value for f in sorted(found, key=lambda f: f.severity.rank)}


def tally(rows: "Iterable[Row]", found: Mapping[int, Mapping[str, str]]) -> Records:
    """The records of all codes.

    Args:
        rows: labelled networks.
        found: by number, what `severities_found` gave.
    """
    from bathyscope.foresight.table.labels import outcome

    ends: dict[str, dict[str, list[tuple[str, bool]]]] = {}
    for row in rows:
        told = found.get(row["number"], {})
        gravest = max((Severity(given).rank for given in told.values()), default=0)
        for code, severity in told.items():
            end = outcome(row, BUDGET), Severity(severity).rank == gravest
            ends.setdefault(code, {}).setdefault(severity, []).append(end)
    return {
        code: {severity: _record(seen) for severity, seen in sorted(kinds.items())}
        for code, kinds in sorted(ends.items())
    }


def _record(ends: Sequence[tuple[str, bool]]) -> TrackRecord:
    """The counts of some outcomes, each with whether nothing graver was found."""
    all_ends = [end for end, _ in ends]
    alone = [end for end, gravest in ends if gravest]
    return TrackRecord(
        len(all_ends),
        all_ends.count("fails"),
        all_ends.count("trains"),
        len(alone),
        alone.count("fails"),
    )


def diagnose_table(parts: Path = PARTS, *, anew: bool = False) -> tuple[int, Records]:
    """Diagnose every labelled network that has not been with today's thresholds, and count.

    Held-out networks are left alone.
    """
    from bathyscope.foresight.table.draw import draw
    from bathyscope.foresight.table.parts import PART, read_rows, write_rows

    rows = [row for row in read_rows(parts) if not draw(row["number"]).held_out]
    state = _thresholds_hash()
    written = () if anew else read_rows(parts, kind="findings")
    known = {r["number"]: r["found"] for r in written if r.get("thresholds") == state}
    for part in sorted({row["number"] // PART for row in rows}):
        inside = [row["number"] for row in rows if row["number"] // PART == part]
        missing = [number for number in inside if number not in known]
        known |= {number: severities_found(number) for number in missing}
        if missing:
            kept = ({"number": n, "thresholds": state, "found": known[n]} for n in inside)
            write_rows(parts / f"findings-{part:03d}.jsonl", kept)
    return len(rows), tally(rows, known)


def _thresholds_hash() -> str:
    """Twelve hexadecimal digits that change with any threshold."""
    from bathyscope.diagnosis.thresholds import THRESHOLDS

    values = {name: threshold.value for name, threshold in sorted(THRESHOLDS.items())}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


def write_records(networks: int, records: Records, path: Path) -> None:
    """Write the counts as JSON."""
    codes = {
        code: {severity: asdict(record) for severity, record in kinds.items()}
        for code, kinds in records.items()
    }
    form = {"networks": networks, "budget": BUDGET, "codes": codes}
    write_atomic(path, json.dumps(form, indent=1).encode() + b"\n")
