"""Findings in the formats that others read: SARIF, JUnit, and the annotations and summary of GitHub."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from bathyscope import __version__
from bathyscope.core.records import Block, Finding, RootCause, Severity
from bathyscope.report.numbers import counts, evidence_of

CiFormat = Literal["text", "json", "sarif", "junit", "github"]

_PAGE = "https://github.com/bathyscope/bathyscope/blob/main/docs/findings.md"
_LEVELS = {Severity.PROBLEM: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_COMMANDS = {Severity.PROBLEM: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a command found, as far as other tools ask for it.

    Attributes:
        title: the model or the script.
        findings: the root causes, most severe first; their effects are said with them, not beside them.
        passed: codes of the checks that found nothing.
        not_checked: codes of the checks that could not be made, and why.
        file: where the model is made, or the script; empty where that is not known.
        line: in the file, from 1.
        fail_on: from this severity on a check has failed.
        silenced: findings that were not to be reported, with the reason of each.
    """

    title: str
    findings: Sequence[Finding]
    passed: Sequence[str] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 1
    fail_on: Severity = Severity.PROBLEM
    silenced: Sequence[tuple[Finding, str]] = ()


def by_depth(roots: Sequence[RootCause], blocks: Sequence[Block]) -> tuple[RootCause, ...]:
    """The same root causes, with the blocks of each in the order of the forward pass."""
    order = {block.label: at for at, block in enumerate(blocks)}

    def ordered(finding: Finding) -> tuple[str, ...]:
        return tuple(sorted(finding.blocks, key=lambda label: order.get(label, len(order))))

    return tuple(
        replace(
            root,
            blocks=ordered(root),
            effects=tuple(replace(effect, blocks=ordered(effect)) for effect in root.effects),
        )
        for root in roots
    )


def sarif_log(result: Findings) -> dict[str, object]:
    """The findings as a log of SARIF 2.1.0: a rule for each code, blocks as logical locations.

    What was silenced is a result with a suppression, whose justification is the reason that was given.
    """
    every = [*result.findings, *(finding for finding, _ in result.silenced)]
    codes = list(dict.fromkeys(finding.code for finding in every))
    titles = {finding.code: finding.title for finding in reversed(every)}
    rules = [
        {"id": code, "shortDescription": {"text": titles[code]}, "helpUri": f"{_PAGE}#{code}"}
        for code in codes
    ]
    driver = {
        "name": "bathyscope",
        "version": __version__,
        "informationUri": "https://github.com/bathyscope/bathyscope",
        "rules": rules,
    }
    results = [_sarif_result(result, finding, codes) for finding in result.findings]
    for finding, reason in result.silenced:
        suppression = {"kind": "external"} | ({"justification": reason} if reason else {})
        results.append(_sarif_result(result, finding, codes) | {"suppressions": [suppression]})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _sarif_result(result: Findings, finding: Finding, codes: list[str]) -> dict[str, object]:
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": sentence(finding)},
        "locations": [_location(result, finding)],
        "partialFingerprints": {
            "finding/v1": f"{result.title}:{finding.code}:{','.join(finding.blocks)}"
        },
    }


def _location(result: Findings, finding: Finding) -> dict[str, object]:
    names = finding.blocks or (result.title,)
    where: dict[str, object] = {
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "module"} for name in names]
    }
    if result.file:
        where["physicalLocation"] = {
            "artifactLocation": {"uri": result.file},
            "region": {"startLine": max(1, result.line)},
        }
    return where


def junit_xml(result: Findings) -> str:
    """The checks as a suite of JUnit: `fail_on` says what has failed; what is milder has passed with a word.

    A check that found an effect alone is skipped: what it found is in the text of its root cause.
    """
    by_code: dict[str, list[Finding]] = {}
    for finding in result.findings:
        by_code.setdefault(finding.code, []).append(finding)
    limit = result.fail_on.rank
    failed = {code for code, group in by_code.items() if group[0].severity.rank >= limit}
    skipped = {
        effect.code: f"follows from {root.code}"
        for root in reversed(result.findings)
        for effect in effects_of(root)
        if effect.code not in by_code
    } | dict(result.not_checked)
    suite = Element(
        "testsuite",
        name=f"bathyscope {_plain(result.title)}",
        tests=str(len(by_code) + len(skipped) + len(result.passed)),
        failures=str(len(failed)),
        errors="0",
        skipped=str(len(skipped)),
        time="0",
    )
    for code, group in by_code.items():
        case, kind = _case(suite, result, code), str(group[0].severity)
        text = _plain("\n".join(f"{one.severity}: {sentence(one)}" for one in group))
        if code in failed:
            title = _plain(group[0].title)
            SubElement(case, "failure", message=title, type=kind).text = text
        else:
            SubElement(case, "system-out").text = text
    for code in result.passed:
        _case(suite, result, code)
    for code, why in skipped.items():
        SubElement(_case(suite, result, code), "skipped", message=_plain(why))
    root = Element("testsuites")
    root.append(suite)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _case(suite: Element, result: Findings, code: str) -> Element:
    return SubElement(
        suite, "testcase", name=code, classname=f"bathyscope.{_plain(result.title)}", time="0"
    )


def _plain(text: str) -> str:
    """Without the characters that XML has no form for."""
    return "".join(c for c in text if c in "\t\n\r" or c >= " ")


def github_annotations(result: Findings) -> str:
    """One workflow command for each finding: GitHub shows them beside the change."""
    return "\n".join(_annotation(result, finding) for finding in result.findings)


def _annotation(result: Findings, finding: Finding) -> str:
    title = _escaped(f"{finding.code}: {finding.title}", more=True)
    where = f"file={_escaped(result.file, more=True)},line={result.line}," if result.file else ""
    return f"::{_COMMANDS[finding.severity]} {where}title={title}::{_escaped(sentence(finding))}"


def _escaped(text: str, *, more: bool = False) -> str:
    """As GitHub's toolkit does: no finding may end its line or begin another command."""
    result = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return result.replace(":", "%3A").replace(",", "%2C") if more else result


def step_summary(result: Findings) -> str:
    """A table in Markdown, for the page of a workflow's run."""
    lines = [f"### bathyscope: {_cell(result.title)}", "", f"{counts(result.findings)}.", ""]
    if result.findings:
        lines += ["| severity | finding | where | it brings about | what helps |", "|---" * 5 + "|"]
        lines += [
            f"| {f.severity} | [{f.code}]({_PAGE}#{f.code}): {_cell(f.title)} "
            f"| {_cell(_where(f))} | {_cell(_brought(f))} | {_cell(f.remedy or 'none known')} |"
            for f in result.findings
        ]
    lines += ["", f"{len(result.passed)} checks passed, {len(result.not_checked)} were not made."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def sentence(finding: Finding) -> str:
    """A finding in a few words: what, where, why, what helps, and of a root cause its effects."""
    # a finding of the whole network shows its numbers
    shown = _where(finding) or ", ".join(evidence_of(finding)[:2])
    where = f" ({shown})" if shown else ""
    helps = f" What helps: {finding.remedy}" if finding.remedy else ""
    brought = f" It brings about: {_brought(finding)}." if effects_of(finding) else ""
    return f"{finding.title}{where}. {finding.why}{helps}{brought}"


def effects_of(finding: Finding) -> tuple[Finding, ...]:
    """What a root cause brought about; nothing of any other finding."""
    return finding.effects if isinstance(finding, RootCause) else ()


def _brought(finding: Finding) -> str:
    return ", ".join(
        f"{effect.code} ({_where(effect)})" if effect.blocks else effect.code
        for effect in effects_of(finding)
    )


def _where(finding: Finding) -> str:
    return finding.block_range or places(finding.blocks)


def places(blocks: Sequence[str], *, most: int = 3) -> str:
    """The first blocks, and how many there are beside them.

    Examples:
        >>> places(["stem", "0", "1", "2", "3"])
        'stem, 0, 1 and 2 more'
    """
    more = f" and {len(blocks) - most} more" if len(blocks) > most else ""
    return f"{', '.join(blocks[:most])}{more}"


def in_format(result: Findings, wanted: CiFormat) -> str:
    """The findings in one of the formats but text and json.

    Examples:
        >>> in_format(Findings(title="mlp", findings=()), "github")
        ''
    """
    if wanted == "sarif":
        return json.dumps(sarif_log(result), indent=2, ensure_ascii=False)
    return junit_xml(result) if wanted == "junit" else github_annotations(result)
