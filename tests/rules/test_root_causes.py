"""Root causes: one for a chain of effects, wherever the findings lie; what is independent stays so."""

from dataclasses import replace

import pytest
import torch

from bathyscope.core.records import Block, Severity
from bathyscope.diagnosis import diagnose
from bathyscope.rules import all_rules, findings, rule_of
from bathyscope.rules.findings import in_order, roots_of
from tests.rules.chains import CHAINS

BLOCKS = [Block(index=i, name=f"b{i}", end=f"b{i}", kind="Block") for i in range(9)]


def finding(code, *locations, severity="problem", step=0, score=1.0):
    blocks = [f"b{location}" for location in locations]
    return replace(rule_of(code).finding(Severity(severity), blocks, score=score), step=step)


def folded(*findings):
    """The codes of the roots, each with those of its effects."""
    roots = roots_of(in_order(findings, BLOCKS), BLOCKS)
    return {root.code: [effect.code for effect in root.effects] for root in roots}


def test_a_cause_that_the_evidence_gives_brings_its_remedy():
    rule = rule_of("vanishing-gradient")
    own = rule.finding(Severity.PROBLEM, ["b0"], score=1.0)
    squashed = rule.finding(Severity.PROBLEM, ["b0"], score=1.0, cause="activation")
    assert own.remedy == rule.advice
    assert squashed.remedy.startswith("Activations that do not saturate")
    assert squashed.remedy.endswith(rule.advice)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_effects_has_one_root(name):
    make, code, block = CHAINS[name]
    model, batch, loss = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    result = diagnose(model, batch, loss=loss, optimizer=optimizer)
    assert [root.code for root in result.roots] == [code]
    if block is not None:
        assert result.roots[0].blocks[0] == block
    assert result.findings[0].code == code
    assert 1 + len(result.roots[0].effects) == len(result.findings)


def test_a_smooth_growth_is_one_range_with_its_rate():
    make, _, _ = CHAINS["growing"]
    model, batch, loss = make()
    (root,) = diagnose(
        model, batch, loss=loss, optimizer=torch.optim.SGD(model.parameters(), lr=0.01)
    ).roots
    assert (root.evidence["first_block"], root.evidence["last_block"]) == ("0", "70")
    assert root.evidence["ratio_per_block"] == pytest.approx(0.7, abs=0.01)
    assert root.block_range == "0 to 70, grows 1.43-fold per block"
    assert set(root.blocks) == {str(2 * i) for i in range(36)}


def test_one_block_that_makes_the_growth_is_named_alone():
    make, _, _ = CHAINS["loud-block"]
    model, batch, loss = make()
    result = diagnose(model, batch, loss=loss).findings
    grown = next(f for f in result if f.code == "exploding-gradient")
    assert (grown.blocks, grown.block_range) == (("blocks.20",), "")


def test_what_lies_before_a_collapse_is_not_its_effect():
    assert folded(finding("collapsed-representation", 4, 5), finding("dead-units", 5, 6)) == {
        "collapsed-representation": ["dead-units"]
    }
    assert folded(finding("collapsed-representation", 4, 5), finding("dead-units", 2, 6)) == {
        "dead-units": ["collapsed-representation"]
    }
    assert folded(finding("silent-branch", 4), finding("dead-units", 2)) == {
        "dead-units": ["silent-branch"]
    }
    assert folded(finding("silent-branch", 2), finding("dead-units", 4)) == {
        "dead-units": [],
        "silent-branch": [],
    }


def test_at_one_place_the_earlier_stage_is_the_cause():
    assert folded(finding("collapsed-representation", 4), finding("dead-units", 4)) == {
        "dead-units": ["collapsed-representation"]
    }


def test_effects_by_backpropagation_lie_before_their_cause():
    assert folded(finding("dead-units", 4), finding("cut-gradient", 3, 4)) == {
        "dead-units": ["cut-gradient"]
    }
    assert list(folded(finding("dead-units", 4), finding("cut-gradient", 6, 7))) == [
        "dead-units",
        "cut-gradient",
    ]


def test_a_cause_is_not_milder_nor_later_than_its_effect():
    effect = finding("dead-units", 5)
    mild = finding("collapsed-representation", 4, severity="warning")
    assert "dead-units" in folded(mild, effect)
    late = finding("collapsed-representation", 4, step=8)
    assert len(folded(late, effect)) == 2


def test_the_same_fault_at_other_blocks_is_told_once():
    severe, mild = finding("dead-units", 5), finding("dead-units", 2, severity="warning")
    assert folded(mild, severe) == {"dead-units": ["dead-units"]}


def test_effects_of_effects_are_folded_under_the_root():
    chain = [
        finding("unscaled-input", 0, severity="warning"),
        finding("large-update", 1),
        finding("overshooting-step"),
        finding("loss-does-not-fall", step=8),
    ]
    assert folded(*chain) == {
        "unscaled-input": ["large-update", "overshooting-step", "loss-does-not-fall"]
    }


def test_rules_that_bring_about_one_another_end_in_a_tree(monkeypatch):
    codes = ["zero-weights", "dead-units", "cut-gradient"]
    rules = dict(all_rules())
    for code, effect in zip(codes, codes[1:] + codes[:1], strict=True):
        rules[code] = replace(rules[code], effects=(effect,), downstream=(), upstream=())
    monkeypatch.setattr(findings, "all_rules", lambda: rules)
    ((root, effects),) = folded(*(finding(code, 3) for code in codes)).items()
    assert sorted([root, *effects]) == sorted(codes)


def test_every_effect_is_the_code_of_a_rule():
    for rule in all_rules().values():
        for code in (*rule.effects, *rule.downstream, *rule.upstream):
            assert code in all_rules(), (rule.code, code)
            assert code != rule.code
