"""Assumptions are evaluated: where one fails the claim is inapplicable, and often the numbers show why."""

import pytest
import torch
from torch import nn

from bathyscope import data, nets
from bathyscope.claims import check
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Verdict
from bathyscope.nets import densenest, resnest

# Settings that break an assumption, the assumption, and whether the statement then fails visibly
# (where it does not, nothing is measured or the statement happens to hold).
BREAKING = [
    ("shortcut_length.theorem_2", {"activations": ("identity", "relu")}, "derivative", False),
    ("shortcut_length.theorem_2", {"activations": ("sigmoid",)}, "vanishes at zero", False),
    ("shortcut_length.lemma_1", {"spread": 1.5}, "ρ/2", True),
    ("norm_preservation.lemma_1", {"singular": True}, "non-singular", False),
    ("norm_preservation.theorem_1", {"orientation": -1}, "positive determinant", False),
    ("norm_preservation.theorem_2", {"blocks": (3,)}, "3γ", False),
    ("singularity.theorem_1", {"norm": 2.0}, "‖M‖ = 1", True),
    ("singularity.finding_1", {"depth": 8, "lr": 0.05}, "fails to train", True),
    ("singularity.finding_3", {"lr": 0.0, "pairs": 1}, "fit the training data", False),
    ("nests.theorem_1", {"width": 8}, "Assumption 4", True),
    ("nests.proposition_3", {"train": False}, "at their minimum", True),
]


@pytest.mark.parametrize(("name", "settings", "failing", "visible"), BREAKING)
def test_a_failed_assumption_makes_a_claim_inapplicable(name, settings, failing, visible):
    result = check(name, settings=settings)
    assert result.verdict is Verdict.INAPPLICABLE
    assert any(failing in a.statement for a in result.assumptions if not a.holds)
    if visible:
        relations = result.numbers["relations"]["printed"]
        assert not all(relation["holds"] for relation in relations)


def test_an_unknown_activation():
    with pytest.raises(UsageError, match="tanh"):
        check("shortcut_length.theorem_2", settings={"activations": ("tanhh",)})


def test_labels_that_coincide():
    torch.manual_seed(0)
    x = nn.functional.normalize(torch.randn(4, 5, dtype=torch.float64))
    result = check("shortcut_length.theorem_1", data=(x, torch.tensor([0, 1, 1, 2])))
    assert result.verdict is Verdict.INAPPLICABLE
    assert any("coincide" in a.statement and a.value == 0 for a in result.assumptions)


def test_own_data_of_theorem_1_and_2():
    torch.manual_seed(9)  # two samples close to one another: ρ = 0.2
    x = nn.functional.normalize(torch.randn(3, 4, dtype=torch.float64))
    own = (x, torch.tensor([2, 0, 1]))
    settings = {"units": (60, 240)}
    result = check("shortcut_length.theorem_1", data=own, settings=settings)
    assert result.verdict is Verdict.HOLDS_UNDER
    digits = data.load("digits", num_train=60)
    few = digits.train_labels < 4
    result = check(
        "shortcut_length.theorem_2", data=(digits.train_inputs[few], digits.train_labels[few])
    )
    assert result.verdict is Verdict.HOLDS
    assert result.settings["width"] == 4


def test_corollary_1_on_own_networks():
    torch.manual_seed(0)
    batch = (torch.randn(16, 6), torch.randn(16, 6))
    model = nets.build("nshortcut-4-3", width=6, pre="tanh", mid="sigmoid", seed=1)
    result = check("norm_preservation.corollary_1", model=model, data=batch)
    assert result.verdict is Verdict.HOLDS
    assert len(result.numbers["blocks"]) == 4
    images = (torch.randn(4, 3, 8, 8), torch.randint(10, (4,)))
    result = check("norm_preservation.corollary_1", model=nets.build("preresnet-11"), data=images)
    assert result.verdict is Verdict.INAPPLICABLE  # batch normalization in the branch
    with pytest.raises(UsageError, match="needs data"):
        check("norm_preservation.corollary_1", model=model)


def test_nests_on_own_networks():
    torch.manual_seed(0)
    model = nets.resnest(4, 1, width=12, feature_sizes=[3, 3])
    x = torch.randn(50, 4)
    pair = (x, (x[:, :1] * x[:, 1:2]).sin())
    before = [p.clone() for p in model.parameters()]
    for name in ("nests.proposition_2", "nests.corollary_1", "nests.remark_2"):
        assert check(name, model=model, data=pair).verdict is Verdict.HOLDS
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    dense = nets.densenest(4, 1, feature_sizes=[3, 3])
    for name in ("nests.proposition_3", "nests.proposition_4"):
        assert check(name, model=dense, data=pair).verdict is Verdict.HOLDS
    with pytest.raises(UsageError, match="ResNEst"):
        check("nests.theorem_1", model=nn.Linear(4, 1), data=pair)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_minimum_of_ones_own_network_is_found_or_nothing_is_said(seed):
    """Just enough room and a default start: valleys so narrow that 150 steps left a gradient of 1e-3."""
    torch.manual_seed(seed)
    model = nets.resnest(6, 2, width=19, feature_sizes=[4, 4, 4, 4])
    x = torch.randn(60, 6)
    y = torch.stack([(x[:, 0] * x[:, 1]).sin(), x[:, 2].cos() + x[:, 3]], dim=1)
    result = check("nests.theorem_1", model=model, data=(x, y))
    assert result.verdict is Verdict.HOLDS
    assert all(row["gradient"] < 1e-8 for row in result.numbers["minima"])


def test_where_no_critical_point_was_found_nothing_is_said(monkeypatch):
    monkeypatch.setattr(
        "bathyscope.papers.nests.claims.problems.minimum_of", lambda risk, start: start
    )
    result = check("nests.theorem_1")
    assert result.verdict is Verdict.INAPPLICABLE
    assert any("critical point" in a.statement for a in result.assumptions if not a.holds)


def test_the_input_as_a_feature_meets_the_printed_premise_and_gains_nothing():
    example = check("nests.corollary_2").numbers["input_as_feature"]
    assert example["critical"]
    assert example["premise"] > 0.1
    assert abs(example["gain"]) < 1e-9


def test_with_relu_there_is_no_hessian_at_zero_but_a_symmetric_one_of_the_local_polynomial():
    result = check("shortcut_length.equation_3")
    assert result.verdict is Verdict.HOLDS_UNDER
    assert result.numbers["gap_of_the_two_sides"] > 1e-2
    assert result.numbers["second_difference_error"] < 1e-6
    assert "ReLU" in result.extra_assumption


def test_theorem_1_of_shortcut_length_says_what_n_and_m_are():
    result = check("shortcut_length.theorem_1", settings={"units": (60, 240)})
    assert "number of units R" in result.extra_assumption
    many = nn.functional.normalize(torch.randn(6, 5, dtype=torch.float64))
    more = check("shortcut_length.theorem_1", data=(many, torch.arange(6) % 5))
    assert more.verdict is Verdict.INAPPLICABLE
    assert any("m ≤ d_y" in a.statement for a in more.assumptions if not a.holds)


def test_corollary_1_says_nothing_at_a_he_start_and_something_with_small_weights():
    record = check("norm_preservation.corollary_1")
    assert not record.vacuous
    assert not any(relation["holds"] for relation in record.numbers["relations"]["strict"])
    model = nets.build("nshortcut-4-2", width=6, pre="relu", mid="relu", init="he", seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.1)
    batch = (torch.randn(16, 6), torch.randn(16, 6))
    assert not check("norm_preservation.corollary_1", model=model, data=batch).vacuous
    model = nets.build("nshortcut-4-2", width=6, pre="relu", mid="relu", init="he", seed=0)
    assert check("norm_preservation.corollary_1", model=model, data=batch).vacuous


def test_corollary_1_of_singularity_finds_a_singular_weight():
    model = nets.build("linear-plain-4", seed=0)
    with torch.no_grad():
        next(model.parameters())[0] = 0
    assert check("singularity.corollary_1", model=model).verdict is Verdict.VIOLATED


def test_theorem_3_of_norm_preservation_on_own_convolutions():
    model = nets.build("procresnet-13", num_classes=10)
    result = check("norm_preservation.theorem_3", model=model)
    assert result.verdict is Verdict.HOLDS_UNDER
    assert result.settings["layers"][0] == "blocks.0.entry"
    pointwise = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    result = check("norm_preservation.theorem_3", model=pointwise)
    assert result.verdict is Verdict.INAPPLICABLE


def _with_a_module_as_mix():
    network = resnest(4, 2, width=14, feature_sizes=[3, 3])
    network.blocks[-1].mix = nn.Sequential(nn.Linear(3, 14, bias=False))
    return network


@pytest.mark.parametrize(
    ("claim", "network", "targets", "message"),
    [
        ("nests.theorem_1", resnest(4, 2, width=14, feature_sizes=[3, 3]), torch.ones(40, 2), "equal"),
        ("nests.theorem_1", resnest(4, 2, width=14, feature_sizes=[3, 3]),
         torch.zeros(40, dtype=torch.long), "equal"),
        ("nests.corollary_2", resnest(4, 2, width=14, feature_sizes=[3, 3]), torch.randn(40, 5),
         "5 values per sample"),
        ("nests.proposition_2", _with_a_module_as_mix(), torch.randn(40, 2), "nn.Linear layers"),
        ("nests.proposition_3", densenest(4, 2, feature_sizes=[3, 3]), torch.ones(40, 2), "equal"),
    ],
)  # fmt: skip
def test_what_no_statement_of_nests_can_be_tested_on_is_said(claim, network, targets, message):
    with pytest.raises(UsageError, match=message):
        check(claim, model=network, data=(torch.randn(40, 4), targets))
