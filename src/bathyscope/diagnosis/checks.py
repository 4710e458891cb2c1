"""Which checks found nothing, which could not be made, and which quantity shows a finding."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bathyscope.core.records import Finding, Measurement
from bathyscope.measure.quantities import quantity_of
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Rule

_FULL = 'only with probes="full"'
_MISSING = {
    "updates": "no optimizer was given",
    "step": "no optimizer was given",
    "curvature": _FULL,
    "deletion": _FULL,
    "look_ahead": _FULL,
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
    silenced: Collection[str] = (),
) -> Checks:
    """The rules that said nothing, distinguished by whether they had something to look at.

    Args:
        measurements: by name.
        findings: what the other rules said.
        silenced: codes and causes that were not to be reported.
    """
    result = {finding.code for finding in findings}
    reasons = {
        code: _reason(rule, measurements, result, silenced)
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


def _reason(
    rule: Rule,
    measurements: Mapping[str, Measurement],
    result: Collection[str],
    silenced: Collection[str],
) -> str:
    """Why a rule was not applied; empty where it was."""
    if rule.code in silenced or rule.cause in silenced:
        return "silenced"
    if rule.find is None:
        return "shows only while training: bs.watch"
    if "equal-samples" in result and rule.compares_samples:
        return "the batch is one sample, repeated"
    for key in rule.reads:
        name = key.partition(".")[0]
        if name not in measurements:
            return _MISSING.get(name, _NOTHING)
    first, _, column = (*rule.reads, "")[0].partition(".")
    if column and all(v is None for v in measurements[first].columns.get(column, ())):
        return _NOTHING  # the first that a rule reads is what it is about
    return ""
