import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import Block, Severity, UnknownName, UsageError
from bathyscope.diagnosis import diagnose
from bathyscope.report import read_report
from bathyscope.rules import Thresholds, all_rules, all_thresholds, findings, rule_of
from bathyscope.rules.findings import in_order
from tests.core import lookalikes as like
from tests.diagnosis.networks import HandMadeViT, ResidualMLP, batch
from tests.support.model_state import assert_same, state_of


def finding_of(code, severity, blocks, *, score):
    return rule_of(code).finding(severity, blocks, score=score)


def broken(depth=8):
    torch.manual_seed(0)
    model = ResidualMLP(depth)
    with torch.no_grad():
        model.blocks[3].one.bias.fill_(-1e3)
    return model


def test_findings_table_and_verdict():
    result = diagnose(broken(), batch(), title="mine")
    assert result.findings[0].code == "dead-units"
    assert result.findings[0].blocks == ("blocks.3",)
    assert result.severity is Severity.PROBLEM
    assert "blocks.3" in result.verdict
    table = result.table
    assert list(table.index) == ["stem", *(f"blocks.{i}" for i in range(8)), "head.1"]
    assert list(table.part) == ["stem", *["body"] * 8, "head"]
    assert table.loc["head.1", "weights.norm"] > 0
    assert table.loc["blocks.3", "activations.dead_units"] == 1.0
    assert table.loc["blocks.3", "findings"] == "dead-units"
    assert result.worst_first.index[0] == "blocks.3"


@pytest.mark.parametrize(("name", "part"), [("stem", "stem"), ("head.1", "head")])
def test_a_value_that_is_non_finite_is_told_where_it_comes_in(name, part):
    torch.manual_seed(0)
    model = ResidualMLP(4)
    with torch.no_grad():
        model.get_submodule(name).weight[0, 0] = float("nan")
    result = diagnose(model, batch())
    reported = next(f for f in result.findings if f.code == "non-finite")
    assert reported.blocks == (name,)
    assert result.table.loc[name, "part"] == part
    assert "non-finite" in result.table.loc[name, "findings"]


def test_a_step_that_replaces_the_head_is_told_and_one_that_is_a_good_part_of_it_is_not():
    torch.manual_seed(0)
    model = ResidualMLP(4)
    for rate, result in ((2.0, [("head.1",)]), (0.1, [])):
        groups = [
            {"params": model.blocks.parameters(), "lr": 1e-3},
            {"params": model.head[1].parameters(), "lr": rate},
        ]
        with torch.no_grad():
            model.head[1].weight.mul_(0.2 / model.head[1].weight.norm())
        outcome = diagnose(model, batch(), optimizer=torch.optim.SGD(groups))
        large = [f.blocks for f in outcome.findings if f.code == "large-update"]
        assert large == result


def test_dead_units_of_a_head_are_told():
    torch.manual_seed(0)
    model = ResidualMLP(4)
    model.head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    with torch.no_grad():
        model.head[0].bias.fill_(-1e3)
    result = next(f for f in diagnose(model, batch()).findings if f.code == "dead-units")
    assert result.blocks == ("head.0",)


@pytest.mark.parametrize("probes", ["standard", "full"])
def test_model_and_optimizer_come_back_bit_for_bit(probes):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(True), nn.Dropout(0.5),
        nn.Linear(32, 32), nn.ReLU(True), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = batch()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    before, momentum = (
        state_of(model),
        [s["momentum_buffer"].clone() for s in optimizer.state.values()],
    )
    diagnose(model, (x, y), optimizer=optimizer, probes=probes, steps=3)
    assert_same(before, state_of(model))
    after = [s["momentum_buffer"] for s in optimizer.state.values()]
    assert all(torch.equal(a, b) for a, b in zip(momentum, after, strict=True))


def test_it_comes_back_when_the_loss_fails_half_way():
    model = broken()
    before = state_of(model)
    with pytest.raises(UsageError, match="on purpose"):
        diagnose(model, batch(), loss=lambda o, t: (_ for _ in ()).throw(ValueError("on purpose")))
    assert_same(before, state_of(model))


def test_reports_are_written_and_read_back(tmp_path):
    result = diagnose(broken(), batch())
    for ending in ("html", "json", "png", "svg", "pdf"):
        path = result.save(tmp_path / "deep" / f"report.{ending}")
        assert path.stat().st_size > 1000
    assert read_report(tmp_path / "deep" / "report.json") == result.report()
    assert result.save(tmp_path / "report.JSON").read_text().startswith("{")
    with pytest.raises(UsageError, match=r"\.gif"):
        result.save(tmp_path / "report.gif")
    assert not (tmp_path / "report.gif").exists()


def test_diff_says_whether_a_change_helped(tmp_path):
    model = broken()
    earlier = diagnose(model, batch())
    earlier.save(tmp_path / "earlier.json")
    with torch.no_grad():
        model.blocks[3].one.bias.zero_()
    later = diagnose(model, batch())
    for reference in (earlier, tmp_path / "earlier.json", earlier.report()):
        difference = later.diff(reference)
        assert difference.outcome == "better"
        assert [f.code for f in difference.gone] == ["dead-units"]
    assert earlier.diff(later).outcome == "worse"
    assert later.diff(later).outcome == "same"
    assert "dead-units" in str(later.diff(earlier))


def test_thresholds_from_a_file_and_silenced_codes(tmp_path):
    model = broken()
    for silence in (["dead-units"], "dead-units"):
        assert diagnose(model, batch(), silence=silence).findings == ()
    file = tmp_path / "limits.toml"
    file.write_text("[thresholds]\ncollapse = 0.9\n")
    result = diagnose(model, batch(), thresholds=file).findings
    assert "collapsed-representation" in {f.code for f in result}
    with pytest.raises(UnknownName, match="dead-units"):
        diagnose(model, batch(), silence=["dead-unit"])
    with pytest.raises(UnknownName, match="collapse"):
        Thresholds.of({"colapse": 1.0})
    file.write_text("thresholds = 3")
    with pytest.raises(UsageError, match=r"\[thresholds\]"):
        Thresholds.of(file)
    file.write_text("[thresholds\n")
    with pytest.raises(UsageError, match="valid TOML"):
        Thresholds.of(file)
    with pytest.raises(UsageError, match="cannot be read"):
        Thresholds.of(tmp_path / "none.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        Thresholds.of(file)
    file.write_text('[thresholds]\ncollapse = "much"\n')
    with pytest.raises(UsageError, match="a number"):
        Thresholds.of(file)


def test_blocks_can_be_given_and_sampled():
    model = broken(30)
    few = diagnose(model, batch(), most_blocks=5)
    assert [b.name for b in few.blocks] == [
        "blocks.0",
        "blocks.7",
        "blocks.14",
        "blocks.22",
        "blocks.29",
    ]
    assert any("5 of 30" in note for note in few.notes)
    assert [b.name for b in diagnose(model, batch(), blocks=["blocks.3"]).blocks] == ["blocks.3"]


def test_embedding_models_double_and_bfloat16_and_keyword_batches():
    tokens = like.HuggingFaceLike()
    example = {"input_ids": torch.randint(11, (8, 5)), "labels": torch.randint(4, (8,))}
    assert len(diagnose(tokens, example).blocks) == 3
    x, y = batch()
    for dtype in (torch.float64, torch.bfloat16):
        result = diagnose(HandMadeViT(3).to(dtype), (x.to(dtype), y))
        assert [f.code for f in result.findings if f.severity is Severity.PROBLEM] == []


def test_every_code_explains_itself_and_every_threshold_has_a_source():
    for code, entry in all_rules().items():
        assert entry.explanation.endswith("."), code
        assert entry.source, code
    assert all(t.source and t.meaning for t in all_thresholds().values())
    with pytest.raises(UnknownName, match="dead-units"):
        rule_of("dead-unit")


def test_ranking_puts_most_severe_first_and_causes_before_effects():
    codes = [
        finding_of("large-update", Severity.PROBLEM, ["a"], score=9.0),
        finding_of("exploding-weights", Severity.PROBLEM, ["a"], score=1.0),
        finding_of("non-finite", Severity.WARNING, ["a"], score=50.0),
        finding_of("exploding-weights", Severity.PROBLEM, ["b"], score=2.0),
    ]
    assert [(f.code, f.blocks[0]) for f in in_order(codes)] == [
        ("exploding-weights", "b"),
        ("exploding-weights", "a"),
        ("large-update", "a"),
        ("non-finite", "a"),
    ]


def test_what_happened_at_an_earlier_block_stands_before_what_it_made_further_on():
    """A block that scales the stream makes later branches small; where it stands behind, it did not."""
    blocks = [Block(index=i, name=name, end=name, kind="Block") for i, name in enumerate("abc")]
    lost = finding_of("stream-outgrows-branches", Severity.PROBLEM, ["b", "c"], score=2.0)

    def codes(location, severity=Severity.PROBLEM):
        scaled = finding_of("not-norm-preserving", severity, [location], score=2.0)
        return [f.code for f in in_order([scaled, lost], blocks)]

    assert codes("a") == ["not-norm-preserving", "stream-outgrows-branches"]
    assert codes("b") == codes("c") == ["stream-outgrows-branches", "not-norm-preserving"]
    assert codes("a", Severity.WARNING)[0] == "stream-outgrows-branches"


def test_causes_in_the_weights_stand_before_what_attention_shows_of_them():
    order = list(all_rules())
    for cause, effect in (
        ("exploding-weights", "entropy-collapse"),
        ("exploding-weights", "stream-outgrows-branches"),
        ("silent-branch", "uniform-attention"),
        ("precision-loss", "token-collapse"),
        ("missing-attention-scale", "entropy-collapse"),
        ("token-collapse", "collapsed-representation"),
    ):
        assert order.index(cause) < order.index(effect)


def test_a_flat_start_is_found():
    """Zero weights in every branch of three layers: no gradient reaches anything (theorem 2)."""

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 64, bias=False) for _ in range(3)])
            for layer in self.layers:
                nn.init.zeros_(layer.weight)

        def forward(self, x):
            y = x
            for layer in self.layers:
                y = torch.tanh(layer(y))
            return x + y

    model = nn.Sequential(nn.Flatten(), *[Branch() for _ in range(6)])
    result = diagnose(model, batch(), loss=lambda o, t: F.cross_entropy(o[:, :10], t))
    assert result.findings[0].code == "flat-start"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x, y: (x[:0], y[:0]), "empty"),
        (lambda x, y: (x * float("nan"), y), "NaN"),
        (lambda x, y: (x, y + 5), "0 to 9"),
        (lambda x, y: (x[..., :3], y), "cannot take"),
        (lambda x, y: x, "without targets"),
        (lambda x, y: (x.to("meta"), y), "move one"),
    ],
)
def test_bad_batches_get_one_sentence(given, message):
    with pytest.raises(UsageError, match=message) as caught:
        diagnose(ResidualMLP(3), given(*batch()))
    assert "\n" not in str(caught.value)


def test_bad_models_get_one_sentence():
    with pytest.raises(UsageError, match="no parameters"):
        diagnose(nn.ReLU(), batch())
    norm = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
    x, y = batch()
    with pytest.raises(UsageError, match="larger batch"):
        diagnose(norm, (x[:1], y[:1]))
    with pytest.raises(UsageError, match="scalar"):
        diagnose(ResidualMLP(3), (x, y), loss=lambda o, t: o)


def test_findings_carry_their_cause_and_are_filtered_and_silenced_by_it(tmp_path):
    result = diagnose(broken(), batch())
    assert [f.code for f in result.findings_of("activation")] == ["dead-units"]
    assert result.findings_of("labels") == ()
    assert diagnose(broken(), batch(), silence="activation").findings_of("activation") == ()
    with pytest.raises(UnknownName, match="lables"):
        result.findings_of("lables")
    read = read_report(result.save(tmp_path / "report.json"))
    assert [f.cause for f in read.findings] == [f.cause for f in result.findings]


def test_a_cause_is_as_grave_as_its_effect_and_stands_before_it(monkeypatch):
    from dataclasses import replace

    rules = dict(all_rules())
    rules["flat-start"] = replace(rules["flat-start"], effects=("vanishing-gradient",))
    monkeypatch.setattr(findings, "all_rules", lambda: rules)
    effect = finding_of("vanishing-gradient", Severity.PROBLEM, ["b"], score=9.0)
    mild = finding_of("flat-start", Severity.NOTE, ["a"], score=1.0)
    other = finding_of("dead-units", Severity.WARNING, ["c"], score=1.0)
    assert [(f.code, f.severity.value) for f in in_order([effect, other, mild])] == [
        ("flat-start", "problem"), ("vanishing-gradient", "problem"), ("dead-units", "warning"),
    ]  # fmt: skip
    assert in_order([mild])[0].severity is Severity.NOTE
