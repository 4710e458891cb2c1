"""Causes over effects: which findings brought about which, and the order that follows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from bathyscope.core.records import Block, Finding, RootCause, Severity
from bathyscope.rules.registry import all_rules


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
