"""A new finding is one new file: every command knows it, and nothing else changes."""

import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UnknownName
from bathyscope.diagnosis.candidates import candidates
from bathyscope.rules import Thresholds, evidence, families, registry, rule_of
from bathyscope.rules.rule import Rule
from bathyscope.rules.targeted import TARGETED
from bathyscope.rules.targeted.context import Context

DOCS = Path(__file__).parents[2] / "docs"


def example():
    """The file of a rule that the tutorial shows."""
    text = (DOCS / "extending.md").read_text(encoding="utf-8")
    (code,) = [c for c in re.findall(r"```python\n(.*?)```", text, re.S) if "Rule(" in c]
    return code


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Add a file to the families for the time of a test."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])

    def add(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        registry.reload_rules()

    yield add
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"{families.__name__}.{path.stem}", None)
    monkeypatch.undo()
    registry.reload_rules()


def net(offset=0.0):
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(8, 8), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    with torch.no_grad():
        model[4].bias.fill_(offset)
    return model


X = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)


def test_the_rule_of_the_tutorial_appears_everywhere(family):
    with pytest.raises(UnknownName):
        bs.explain("offset-output")
    family("offsets", example())
    model = net(offset=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    result = bs.diagnose(model, (X, Y), optimizer=optimizer)
    reported = next(f for f in result.findings if f.code == "offset-output")
    assert reported.blocks[0] == "4"
    assert "offset-output" not in {f.code for f in bs.diagnose(net(), (X, Y)).findings}
    # silenced and overridden by name
    for options in ({"silence": "offset-output"}, {"thresholds": {"offset": 1e9}}):
        other = bs.diagnose(model, (X, Y), optimizer=optimizer, **options)
        assert "offset-output" not in {f.code for f in other.findings}
    # explained, here and on the page
    text = str(bs.explain("offset-output"))
    assert "mostly offset" in text
    assert "offset = 50" in text
    page = generator().findings()
    assert "## offset-output\n\n**An output that is mostly offset.**" in page
    assert "| `offset` | 50 |" in page
    # among the candidates of treat
    context = Context(
        model, optimizer, (X, Y), result.blocks, (reported,), nn.functional.cross_entropy
    )
    recipes = [c.recipe for c in candidates(context, ("weights",), 4) if c.targeted]
    assert [step.layers[0] for recipe in recipes for step in recipe.steps] == ["4"]


def test_the_rule_of_the_tutorial_is_noticed_while_training(family):
    family("offsets", example())
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with bs.watch(model, every=5) as seen:
        for step in range(60):
            if step == 40:
                with torch.no_grad():
                    model[12].bias.add_(1e4)  # the mean of the last block's output
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
    events = [e for e in seen.events if e.code == "offset-output"]
    assert [(e.step, e.began) for e in events] == [(40, "12")]
    assert events[0].sentence.startswith("Step 40: the mean of a block's output jumped")
    assert events[0].advice.startswith("Start biases at zero")


def generator():
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("generate")
    finally:
        sys.path.remove(str(DOCS))


def test_a_second_rule_of_a_code_is_left_out_with_a_warning(family):
    family("zz_twice", example().replace("offset-output", "dead-units"))
    with pytest.warns(UserWarning, match="second rule of the code 'dead-units'"):
        registry.all_rules()
    assert rule_of("dead-units").title != "An output that is mostly offset"


def test_rules_of_other_packages_are_found_and_broken_ones_named(tmp_path, monkeypatch):
    (tmp_path / "their_rules.py").write_text(example().replace("offset-output", "theirs"))
    (tmp_path / "broken_rules.py").write_text("raise RuntimeError('no such luck')")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = [SimpleNamespace(name=n, value=n) for n in ("broken_rules", "their_rules")]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    registry.reload_rules()
    try:
        with pytest.warns(UserWarning, match="broken_rules.*no such luck"):
            assert rule_of("theirs").cause == "initialization"
    finally:
        monkeypatch.undo()
        registry.reload_rules()
    assert "theirs" not in registry.all_rules()


def test_every_rule_is_whole():
    for code, rule in registry.all_rules().items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
        assert rule.title[0].isupper(), code
        assert not rule.title.endswith("."), code
        assert rule.explanation.endswith("."), code
        assert rule.source, code
        assert rule.find or rule.find_in_loop or rule.event, code
        assert rule.reads or rule.find is None, code
        for name in (*rule.remedies, *rule.repairs):
            assert name in TARGETED, (code, name)


def test_a_threshold_of_one_name_is_one_threshold():
    for rule in registry.all_rules().values():
        for name, threshold in rule.thresholds.items():
            assert registry.all_thresholds()[name] == threshold, (rule.code, name)


def test_every_rule_reads_its_own_thresholds_and_what_it_says_it_reads():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    result = bs.diagnose(model, (X, Y), optimizer=optimizer, probes="full", budget=9)
    spy = Spy(result)
    for rule in registry.all_rules().values():
        if rule.find is not None:
            assert not set(spy.read_by(rule)) - set(rule.reads), rule.code
            assert not spy.thresholds - set(rule.thresholds), rule.code


class Spy:
    """Evidence and thresholds that note what a rule reads."""

    def __init__(self, diagnosis):
        self.evidence = evidence.Evidence(
            tuple(diagnosis.blocks), diagnosis.measurements, 1e-7, budget=9
        )
        self.thresholds = set()

    def read_by(self, rule):
        asked, spy = set(), self
        spy.thresholds = set()

        class Noted(evidence.Evidence):
            def column(self, measurement, column):
                asked.add(f"{measurement}.{column}")
                return super().column(measurement, column)

            def description(self, measurement, column):
                asked.add(f"{measurement}.{column}")
                return super().description(measurement, column)

            def about(self, measurement):
                asked.add(measurement)
                return super().about(measurement)

            @property
            def everywhere(self):
                return self

        class Limits(Thresholds):
            def __getitem__(self, name):
                spy.thresholds.add(name)
                return super().__getitem__(name)

        assert isinstance(rule, Rule)
        given = self.evidence
        list(rule.find(Noted(given.blocks, given.measurements, 1e-7, False, 9), Limits({})))
        return asked
