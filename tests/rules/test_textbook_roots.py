"""Textbook faults of deep networks: the root is what a textbook names, and the same for every batch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.records import Block, Severity
from bathyscope.diagnosis import diagnose
from bathyscope.rules import rule_of
from bathyscope.rules.findings import in_order, roots_of
from tests.loops.tasks import digits

BLOCKS = [Block(index=i, name=f"b{i}", end=f"b{i}", kind="Block") for i in range(9)]


class Layer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Plain(nn.Module):
    """Layers without shortcut or norm, as PyTorch initializes them."""

    def __init__(self, depth, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList([Layer() for _ in range(depth)])
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batch(number=0):
    x, y, _, _ = digits()
    return x[100 * number :][:64], y[100 * number :][:64]


def diagnosed(model, data, lr=1e-3, loss=F.cross_entropy):
    optimizer = torch.optim.Adam(model.parameters(), lr)
    return diagnose(model, data, loss=loss, optimizer=optimizer)


def roots_at(**places):
    """The codes of the roots of problems at the given blocks, each with its effects."""
    findings = [
        rule_of(code.replace("_", "-")).finding(
            Severity.PROBLEM, [f"b{i}" for i in blocks], score=1.0
        )
        for code, blocks in places.items()
    ]
    roots = roots_of(in_order(findings, BLOCKS), BLOCKS)
    return {root.code: {effect.code for effect in root.effects} for root in roots}


def test_epsilon_and_constant_classes_follow_from_a_vanishing_gradient():
    (root,) = diagnosed(Plain(40), batch()).roots
    assert root.code == "vanishing-gradient"
    effects = {effect.code for effect in root.effects}
    assert {"swallowed-by-epsilon", "small-update", "collapsed-representation"} <= effects


def test_gradients_below_epsilon_in_all_blocks_alike_are_a_root():
    alike = roots_at(swallowed_by_epsilon=range(9), vanishing_gradient=range(9))
    assert set(alike) == {"swallowed-by-epsilon", "vanishing-gradient"}
    by_depth = roots_at(swallowed_by_epsilon=range(6), vanishing_gradient=range(9))
    assert by_depth == {"vanishing-gradient": {"swallowed-by-epsilon"}}


def test_constant_classes_follow_from_samples_that_are_alike_before_the_head():
    assert roots_at(constant_classes=[8], collapsed_representation=[8]) == {
        "collapsed-representation": {"constant-classes"}
    }
    assert roots_at(constant_classes=[8], constant_output=[8]) == {
        "constant-output": {"constant-classes"}
    }


def test_a_row_of_zeros_in_the_head_is_a_root():
    model = Plain(2)
    with torch.no_grad():
        model.head.weight[3].zero_()
    assert "constant-classes" in {root.code for root in diagnosed(model, batch()).roots}


def test_every_batch_gives_the_same_root():
    model = Plain(20, seed=1)
    for number in range(3):
        roots = diagnosed(model, batch(number)).roots
        assert [root.code for root in roots] == ["vanishing-gradient"]


def test_of_a_collapse_and_a_vanishing_gradient_the_root_is_what_begins_first():
    """Whether or not the rank falls before the samples are alike, which depends on the batch."""
    for low_rank in (range(1, 9), range(3, 9)):
        early = roots_at(
            vanishing_gradient=range(9),
            collapsed_representation=range(2, 9),
            singular_representation=low_rank,
        )
        assert early == {
            "vanishing-gradient": {"collapsed-representation", "singular-representation"}
        }
    late = roots_at(collapsed_representation=range(2, 9), vanishing_gradient=range(2, 6))
    assert late == {"collapsed-representation": {"vanishing-gradient"}}


@pytest.mark.parametrize(("part", "biases"), [("", False), ("layers", False), ("", True)])
def test_weights_of_zero_are_the_root_of_dead_units(part, biases):
    model = Plain(4)
    with torch.no_grad():
        for module in model.get_submodule(part).modules():
            if isinstance(module, nn.Linear):
                module.weight.zero_()
                module.bias.mul_(not biases)
    (root,) = diagnosed(model, batch()).roots
    assert root.code == "zero-weights"
    assert "dead-units" in {effect.code for effect in root.effects}


def test_branches_that_start_at_zero_are_no_fault():
    class Branch(Layer):
        def forward(self, x):
            return x + self.linear(torch.relu(x))

    model = Plain(4)
    model.layers = nn.ModuleList([Branch() for _ in range(4)])
    for layer in model.layers:
        nn.init.zeros_(layer.linear.weight)
    codes = {finding.code for finding in diagnosed(model, batch()).findings}
    assert not codes & {"zero-weights", "dead-units"}


class Cut(Plain):
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                x = self.cut(x)
        return self.head(x)

    def cut(self, x):
        return (100 * x).long().to(
            x
        ) / 100  # no function that could be undone: there is no line to name


def test_a_cut_says_between_what_it_lies():
    (root,) = diagnosed(Cut(4), batch()).roots
    assert root.code == "cut-gradient"
    assert root.why.startswith("No gradient reaches layers.1 or a block before it")
    assert "between the output of layers.1 and layers.2" in root.remedy
    assert "Layer.forward" in root.remedy


def test_a_cut_behind_the_last_block_names_no_gradient_after_it():
    class CutAtTheEnd(Plain):
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head((100 * x).long().to(x) / 100)

    (root,) = diagnosed(CutAtTheEnd(3), batch()).roots
    assert root.code == "cut-gradient"
    assert "gradient_after" not in root.evidence
    assert "between the output of layers.2 and" in root.remedy


def test_a_vanishing_gradient_is_listed_by_depth():
    (root,) = diagnosed(Plain(12), batch()).roots
    assert list(root.blocks) == [f"layers.{i}" for i in range(12)]
    assert root.block_range.startswith("layers.0 to layers.11, shrinks 2.")
    assert root.block_range.endswith("-fold per block")


@pytest.mark.parametrize(("lr", "severity"), [(3e-8, "warning"), (1e-3, None)])
def test_steps_of_less_than_a_millionth_are_a_warning(lr, severity):
    result = diagnosed(Plain(2), batch(), lr=lr)
    updates = [f for f in result.findings if f.code == "small-update"]
    assert [finding.severity for finding in updates] == ([severity] if severity else [])


def test_small_steps_at_a_loss_that_is_met_are_none():
    x, _ = batch()
    model = Plain(2)
    with torch.no_grad():
        model.head.bias[3] = 40.0
    result = diagnosed(model, (x, torch.full((64,), 3)), lr=3e-8)
    assert "small-update" not in {f.code for f in result.findings if f.severity == "warning"}
