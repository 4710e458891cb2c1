"""Which checks found nothing, which could not be made, and which quantity shows a finding."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bathyscope.core.records import Finding, Measurement
from bathyscope.measure.quantities import quantity_of
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Rule

_FULL = 'only with probes="full"'
_NO_OPTIMIZER = "no optimizer was given"
_MISSING = {
    "updates": _NO_OPTIMIZER,
    "step": _NO_OPTIMIZER,
    "curvature": _FULL,
    "deletion": _FULL,
    "look_ahead": _FULL,
}
_MISSING_OF_FULL = _MISSING | {
    "curvature": "the curvature was not measured",
    "deletion": "no block can be left out",
    "look_ahead": _NO_OPTIMIZER,
}
"""Why a measurement is missing; any other is not there because the network has nothing of the kind."""
_NOTHING = "the network has nothing of the kind"


@dataclass(frozen=True, slots=True)
class Checks:
    """Codes of the checks that found nothing, and of those that were not made, with the reason."""

    passed: tuple[str, ...]
    not_checked: Mapping[str, str]


def checks_of(
    measurements: Mapping[str, Measurement],
    findings: Collection[Finding],
    *,
    silenced: Mapping[str, str] | None = None,
    is_full: bool = False,
) -> Checks:
    """The rules that said nothing, distinguished by whether they had something to look at.

    Args:
        measurements: by name.
        findings: what the other rules said.
        silenced: codes and causes that were not to be reported, and why not.
        is_full: whether a copy took some steps; with an optimizer the rules on them were applied.
    """
    result = {finding.code for finding in findings}
    missing = _MISSING_OF_FULL if is_full else _MISSING
    known = {*measurements} | ({"look_ahead"} if is_full and "updates" in measurements else set())
    silenced = silenced or {}
    reasons = {
        code: _silenced(rule, silenced) or _reason(rule, measurements, result, known, missing)
        for code, rule in all_rules().items()
        if code not in result
    }
    return Checks(
        passed=tuple(code for code, reason in reasons.items() if not reason),
        not_checked={code: reason for code, reason in reasons.items() if reason},
    )


def decisive_quantity(finding: Finding) -> str:
    """Key of the quantity over depth that shows a finding, or its measurement; empty where none does.

    Examples:
        >>> from bathyscope.core.records import Severity
        >>> from bathyscope.rules.registry import rule_of
        >>> dead = rule_of("dead-units").finding(Severity.NOTE, ["0"], score=1.0)
        >>> decisive_quantity(dead)
        'activations.dead_units'
    """
    rule = all_rules().get(finding.code)
    reads = [key for key in (rule.reads if rule else ()) if "." in key]
    shown = (key for key in reads if quantity_of(key).good_range is not None)
    return next(shown, reads[0].partition(".")[0] if reads else "")


def _silenced(rule: Rule, silenced: Mapping[str, str]) -> str:
    """That a rule was silenced, and why; empty where it was not."""
    name = next((name for name in (rule.code, rule.cause) if name in silenced), None)
    if name is None:
        return ""
    return f"silenced: {silenced[name]}" if silenced[name] else "silenced"


def _reason(
    rule: Rule,
    measurements: Mapping[str, Measurement],
    result: Collection[str],
    known: Collection[str],
    missing: Mapping[str, str],
) -> str:
    """Why a rule was not applied; empty where it was."""
    if rule.find is None:
        return "shows only while training: bs.watch"
    if "equal-samples" in result and rule.compares_samples:
        return "the batch is one sample, repeated"
    for key in rule.reads:
        name = key.partition(".")[0]
        if name not in known:
            return missing.get(name, _NOTHING)
    first, _, column = (*rule.reads, "")[0].partition(".")
    if column and all(v is None for v in measurements[first].columns.get(column, ())):
        return _NOTHING  # the first that a rule reads is what it is about
    return ""
