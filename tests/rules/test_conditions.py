"""The conditions without which a rule is not asked."""

import math

import pytest

from bathyscope.core.records import Block, Measurement
from bathyscope.measure.around import AROUND
from bathyscope.rules.evidence import Evidence
from bathyscope.rules.findings import apply_rules
from bathyscope.rules.registry import all_rules
from bathyscope.rules.rule import Thresholds, When


def evidence_with(**settings):
    block = Block(index=0, name="0", end="0", kind="Linear")
    columns = {"norm": (2.0,), "rank": (None,), "non_finite": (0.0,)}
    weights = Measurement(name="weights", blocks=(block,), columns=columns)
    labels = Measurement(name="labels", blocks=(), columns={}, settings=settings)
    return Evidence((block,), {"weights": weights, "labels": labels}, 1e-7, budget=30)


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (When("labels.x"), 1, True),
        (When("labels.x"), 0, False),
        (When("labels.x"), None, False),
        (When("labels.x"), "name", True),
        (When("labels.x", above=2), 2, False),
        (When("labels.x", above=2), 3, True),
        (When("labels.x", above=2), "name", False),
        (When("labels.x", below="dead_fraction"), 0.5, True),
        (When("labels.x", below="dead_fraction"), 1.0, False),
        (When("labels.x", above="weights.norm"), 3, True),
        (When("labels.x", above="weights.norm"), 2, False),
        (When("labels.x", above=1, below=3), 2, True),
        (When("labels.x", above=1, below=3), 4, False),
        (When("labels.x", among=("a", "b")), "b", True),
        (When("labels.x", among=("a", "b")), "c", False),
        (When("labels.x", is_finite=False), math.nan, True),
        (When("labels.x", is_finite=False), 1.0, False),
        (When("weights.norm", above=1), None, True),
        (When("weights.rank"), None, False),
        (When("nothing.x"), 1, False),
        (When("budget"), 1, True),
        (When("samples_equal"), 1, False),
    ],
)
def test_a_condition_holds_where_its_value_does(condition, value, holds):
    assert condition.holds(evidence_with(x=value), Thresholds.of()) is holds


def test_the_rows_of_stem_and_head_count():
    head = Block(index=1, name="head", end="head", kind="Linear", part="head")
    columns = {"weights.norm": (1.0,), "weights.rank": (None,), "weights.non_finite": (1.0,)}
    beside = Measurement(name=AROUND, blocks=(head,), columns=columns)
    before = evidence_with()
    whole = Evidence(before.blocks, {**before.measurements, AROUND: beside}, 1e-7)
    assert not list(apply_rules(before, Thresholds.of()))
    assert [finding.code for finding in apply_rules(whole, Thresholds.of())] == ["non-finite"]


def test_every_limit_is_a_threshold_of_its_rule_or_another_value():
    for rule in all_rules().values():
        for condition in rule.when:
            if isinstance(condition, When):
                for limit in (condition.above, condition.below):
                    if isinstance(limit, str) and "." not in limit:
                        assert limit in rule.thresholds, rule.code


def test_a_rule_reads_what_its_conditions_name():
    for rule in all_rules().values():
        read = {name.partition(".")[0] for name in rule.reads}
        for condition in rule.when:
            name = condition if isinstance(condition, str) else condition.name
            if "." in name:
                assert name.partition(".")[0] in read, (rule.code, name)
