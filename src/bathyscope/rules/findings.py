"""From evidence to findings: what each rule finds, how severe it is, and which finding brought about which.

Severities follow from track records: how often random networks that had a finding really failed to train.
The counts lie beside this file; `tools/track_record` in the repository makes them.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Block, Finding, RootCause, Severity
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Thresholds

FILE = "track_record.json"
BUDGET = 300

ENOUGH = 20
"""Networks below which a code has no record of its own, only the tests with planted faults."""

PROBLEM = 0.9
"""Fraction of the networks that failed from which on a finding is a problem."""


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


def apply_rules(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """What each rule finds by itself, with the severity that it gives.

    A rule of whose measurements none was made is not asked, nor one none of whose conditions holds.
    """
    measured = evidence.measurements.keys()
    normalized = any(
        v is not None for v in evidence.column("normalization", "variance_over_epsilon")
    )
    for rule in all_rules().values():
        if rule.reads and measured.isdisjoint(_measurements_read(rule.reads)):
            continue
        # rules that compare the samples of a batch would blame the network where there is but one
        left_out = rule.compares_samples or (rule.reads_gradients and normalized)
        if rule.find is None or (evidence.samples_equal and left_out):
            continue
        if rule.may_apply(evidence, thresholds):
            yield from rule.find(evidence, thresholds)


@cache
def _measurements_read(rule_reads: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.split(".")[0] for name in rule_reads)


def apply_loop_rules(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """What each rule finds in the record of a training loop."""
    for rule in all_rules().values():
        if rule.find_in_loop is not None:
            yield from rule.find_in_loop(record, thresholds)


def findings_of(
    evidence: Evidence,
    thresholds: Thresholds,
    *,
    silenced: Collection[str] = (),
    records: Records | None = None,
) -> tuple[Finding, ...]:
    """Everything the rules find, severest first, without the codes and causes a user has silenced.

    Severities follow from the track records of the codes where they have one.
    """
    return split_findings(evidence, thresholds, silenced=silenced, records=records)[0]


def split_findings(
    evidence: Evidence,
    thresholds: Thresholds,
    *,
    silenced: Collection[str],
    records: Records | None = None,
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """See `findings_of`; and beside them those that were silenced."""
    kept: list[Finding] = []
    left_out: list[Finding] = []
    for finding in apply_rules(evidence, thresholds):
        is_silenced = finding.code in silenced or finding.cause in silenced
        (left_out if is_silenced else kept).append(finding)

    def ranked(findings: list[Finding]) -> tuple[Finding, ...]:
        return in_order(judge_by_record(findings, records), evidence.blocks)

    return ranked(kept), ranked(left_out) if left_out else ()


def judge_by_record(findings: Iterable[Finding], records: Records | None = None) -> list[Finding]:
    """The findings with the severities that follow from their track records."""
    known = track_records() if records is None else records
    judged = []
    for finding in findings:
        record = known.get(finding.code, {}).get(finding.severity.value)
        severity = finding.severity if record is None else record.severity(finding.severity)
        judged.append(
            finding if severity is finding.severity else replace(finding, severity=severity)
        )
    return judged


def describe_record(code: str, records: Records | None = None) -> str:
    """What became of the networks with a finding, as a sentence."""
    known = (track_records() if records is None else records).get(code, {})
    if sum(record.networks for record in known.values()) < ENOUGH:
        return "Planted tests only."
    result = [
        f"{record.failed} of {record.networks} random networks with it as a {severity} failed "
        f"to train within {BUDGET} steps, {record.trained} trained"
        for severity, record in known.items()
        if record.networks
    ]
    return "; ".join(result) + "."


@cache
def track_records() -> Records:
    """Those that come with the package; none where the table has not been diagnosed yet."""
    path = resources.files("bathyscope.rules").joinpath(FILE)
    if not path.is_file():
        return {}
    written = json.loads(path.read_text(encoding="utf-8"))["codes"]
    return {
        code: {severity: TrackRecord(**counts) for severity, counts in kinds.items()}
        for code, kinds in written.items()
    }


def in_order(findings: Sequence[Finding], blocks: Iterable[Block] = ()) -> tuple[Finding, ...]:
    """Severest first; of equal severity what was seen first, and causes before effects.

    A cause is as severe as the severest of its effects that were found: an unscaled input that makes
    the gradient vanish is the problem, and stands before it.

    Args:
        findings: in any order.
        blocks: in the order of the forward pass, to know what happened further on.
    """
    severest: dict[str, Severity] = {}
    for finding in findings:
        severest[finding.code] = max(
            finding.severity, severest.get(finding.code, finding.severity), key=_rank
        )
    rules = all_rules()
    order = {code: i for i, code in enumerate(rules)}
    raised = [
        replace(finding, severity=max(finding.severity, *effects, key=_rank))
        if effects
        else finding
        for finding in findings
        for effects in [
            [severest[code] for code in rules[finding.code].effects if code in severest]
        ]
    ]
    ranked = sorted(raised, key=lambda f: (-f.severity.rank, f.step, order[f.code], -f.score))
    parents = _parents(ranked, blocks)
    result: dict[int, Finding] = {}
    for index in range(len(ranked)):
        for ancestor in reversed(_line(index, parents)):
            cause = ranked[ancestor]
            if (cause.severity, cause.step) == (ranked[index].severity, ranked[index].step):
                result.setdefault(ancestor, cause)
    return tuple(result.values())


def roots_of(findings: Sequence[Finding], blocks: Iterable[Block] = ()) -> tuple[RootCause, ...]:
    """The findings that no other one explains, in their order, with those that they brought about.

    Args:
        findings: as `in_order` gives them.
        blocks: in the order of the forward pass.
    """
    parents = _parents(findings, blocks)
    effects: dict[int, list[Finding]] = {i: [] for i in range(len(findings)) if i not in parents}
    for index in parents:
        effects[_line(index, parents)[-1]].append(findings[index])
    return tuple(
        RootCause(
            **{field.name: getattr(findings[root], field.name) for field in fields(Finding)},
            effects=tuple(folded),
        )
        for root, folded in effects.items()
    )


def _line(index: int, parents: Mapping[int, int]) -> list[int]:
    """A finding, its cause, the cause of that, up to the root."""
    line = [index]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line


def _parents(findings: Sequence[Finding], blocks: Iterable[Block]) -> dict[int, int]:
    """For each finding that another one explains, the first of those; a tree, whatever the rules say."""
    location = {block.label: i for i, block in enumerate(blocks)}

    def explains(cause: int, effect: int) -> bool:
        return _explains(findings[cause], findings[effect], location, first=cause < effect)

    parents: dict[int, int] = {}
    for effect in range(len(findings)):
        for cause in range(len(findings)):
            # of two that explain one another the first is the cause
            if (
                cause != effect
                and explains(cause, effect)
                and not (effect < cause and explains(effect, cause))
                and effect not in _line(cause, parents)
            ):
                parents[effect] = cause
                break
    return parents


def _explains(cause: Finding, effect: Finding, location: Mapping[str, int], *, first: bool) -> bool:
    """Whether one finding brought about another: by its code, and by where both lie.

    Args:
        cause, effect: the two.
        location: of a block in the forward pass.
        first: whether the cause ranks before the effect, which decides at one place.
    """
    if cause.severity.rank < effect.severity.rank or cause.step > effect.step:
        return False
    if cause.code == effect.code:  # the same fault, milder
        return cause.severity.rank > effect.severity.rank
    rule = all_rules()[cause.code]
    there = [location[label] for label in cause.blocks if label in location]
    here = [location[label] for label in effect.blocks if label in location]
    if not there or not here:  # it concerns the network as a whole
        return effect.code in {*rule.effects, *rule.downstream, *rule.upstream}
    later, earlier = min(here) - min(there), max(there) - max(here)
    return (
        effect.code in rule.effects
        or (effect.code in rule.downstream and (later > 0 or (later == 0 and first)))
        or (effect.code in rule.upstream and (earlier > 0 or (earlier == 0 and first)))
    )


def _rank(severity: Severity) -> int:
    return severity.rank
