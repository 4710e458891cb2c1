"""Verdicts of claims and findings of random networks, printed as JSON; run by `test_processors`.

Arguments: every how many-th claim, and how many networks.
"""

import json
import sys

from bathyscope import diagnose
from bathyscope.claims import check
from bathyscope.claims.registry import all_claims
from benchmarks.failing_networks import DEVELOPMENT, FailureDraw, task_of


def verdicts(names: list[str]) -> dict[str, str]:
    """The verdict of each claim that can be measured."""
    return {name: check(name).verdict.value for name in names}


def findings(numbers: range) -> dict[str, list[list[str]]]:
    """Code and block of every finding of the networks with these numbers."""
    table: dict[str, list[list[str]]] = {}
    for number in numbers:
        draw = FailureDraw.of(number)
        model, _ = draw.build(0)
        report = diagnose(model, task_of(draw.task).batches(1, seed=0)[0])
        table[f"{draw.family} {number}"] = sorted([f.code, str(f.blocks)] for f in report.findings)
    return table


if __name__ == "__main__":
    every, networks = map(int, sys.argv[1:])
    coded = [name for name, claim in all_claims().items() if claim.measure is not None]
    outcomes = {
        "verdicts": verdicts(coded[::every]),
        "findings": findings(range(DEVELOPMENT, DEVELOPMENT + networks)),
    }
    print(json.dumps(outcomes))
