"""Events of `watch` and findings of `diagnose` have one set of codes."""

import ast
from pathlib import Path

import numpy as np
import pytest

from bathyscope import recorder
from bathyscope.core.blocks import Blocks
from bathyscope.core.records import Block
from bathyscope.recorder.event import Event
from bathyscope.recorder.samples import COLUMNS, TakenSamples
from bathyscope.recorder.transitions import sampled_events
from bathyscope.rules import all_rules

SOURCES = list(Path(recorder.__file__).parent.glob("*.py"))


def codes_made(source):
    """The codes that a file of the recorder gives to events, as they stand in its text."""
    result = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        given = [k.value for k in node.keywords if k.arg == "code"] if name == "Event" else []
        given += node.args[1:2] if name == "_event" else []
        result |= {g.value for g in given if isinstance(g, ast.Constant)}
    return result


def test_no_event_has_a_code_that_is_not_that_of_a_rule():
    made = set().union(*(codes_made(path.read_text()) for path in SOURCES))
    assert {"loss-spike", "weights-changed", "small-update"} <= made
    with_events = {code for code, rule in all_rules().items() if rule.event is not None}
    assert made <= with_events
    sampled = {c for c in with_events if all_rules()[c].event.column is not None}
    assert made | sampled == with_events, "a rule whose event nobody notices"


def test_the_check_of_codes_can_fail():
    assert codes_made('yield _event(history, "units-die", began)') == {"units-die"}
    assert codes_made('Event(code="collapse", step=1)') == {"collapse"}


def test_every_sampled_event_reads_a_column_that_is_sampled():
    for rule in all_rules().values():
        if rule.event is not None and rule.event.column is not None:
            assert rule.event.column in COLUMNS, rule.code


def samples(column, before, now):
    """Two blocks, of which the second has these values, four times before and once now."""
    blocks = tuple(Block(index=i, name=f"b{i}", end=f"b{i}", kind="Block") for i in range(2))
    taken = TakenSamples(Blocks(blocks, "given"), most=12)
    for step, value in enumerate([before] * 4 + [now]):
        values = np.full((2, len(COLUMNS)), np.nan)
        values[:, COLUMNS.index("std")] = 1.0
        values[1, COLUMNS.index(column)] = value
        taken.append(step, values)
    return taken


@pytest.mark.parametrize(
    ("code", "column", "before", "now", "is_event"),
    [
        ("exploding-activations", "std", 1.0, 101.0, True),
        ("exploding-activations", "std", 1.0, 99.0, False),
        ("dead-units", "dead", 0.4, 0.9, True),
        ("dead-units", "dead", 0.6, 0.9, False),
        ("dead-units", "dead", 0.4, 0.89, False),
        ("collapsed-representation", "variety", 0.1, 1e-5, True),
        ("collapsed-representation", "variety", 1e-3, 1e-5, False),
        ("entropy-collapse", "entropy", 0.5, 0.05, True),
        ("entropy-collapse", "entropy", 0.3, 0.05, False),
        ("non-finite", "std", 1.0, np.inf, True),
    ],
)
def test_a_block_that_crosses_a_limit_is_an_event(code, column, before, now, is_event):
    events = list(sampled_events(samples(column, before, now)))
    assert [(e.code, e.began, e.step) for e in events] == ([(code, "b1", 4)] if is_event else [])
    for event in events:
        assert event.advice
        assert Event.from_json(event.to_json()) == event


def test_units_that_died_explain_samples_that_look_alike():
    taken = samples("dead", 0.0, 1.0)
    for step, values in enumerate(taken.values):
        values[1, COLUMNS.index("variety")] = 1.0 if step < 4 else 0.0
    assert [e.code for e in sampled_events(taken)] == ["dead-units"]
