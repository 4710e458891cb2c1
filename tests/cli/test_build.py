"""From words to a model, a batch, a loss and an optimizer: the values that a command works with."""

import sys
import types

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

from bathyscope.cli import build
from bathyscope.cli.build import (
    batch_of,
    build_case,
    fresh_batches,
    is_factory,
    loss_of,
    optimizer_of,
    read_weights,
    training_batches,
)
from bathyscope.cli.check import _print_check, _print_summary, _short
from bathyscope.cli.named_run import NamedRun
from bathyscope.cli.options import CommandOptions
from bathyscope.cli.resolve import call_user_code, factory_of, model_of, read_assignments
from bathyscope.cli.show import _say, _text
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.losses import token_cross_entropy
from bathyscope.core.records import Assumption, ClaimCheck, Verdict


@pytest.fixture
def mine(monkeypatch):
    """A module of a user's, put where Python looks for one."""
    module = types.ModuleType("mine_of_build")

    def define(function):
        setattr(module, function.__name__, function)
        return f"mine_of_build:{function.__name__}"

    monkeypatch.setitem(sys.modules, "mine_of_build", module)
    return define


def arguments_of(**changes):
    return CommandOptions(**{"model": "resnet-8"} | changes)


def test_an_optimizer_has_the_settings_that_were_given():
    given = [nn.Parameter(torch.ones(2))]
    said = arguments_of(lr=0.3, momentum=0.7, weight_decay=0.02)
    sgd = optimizer_of(said, given)
    assert isinstance(sgd, optim.SGD)
    known = {key: sgd.defaults[key] for key in ("lr", "momentum", "weight_decay")}
    assert known == {"lr": 0.3, "momentum": 0.7, "weight_decay": 0.02}
    for name, kind in (("adam", optim.Adam), ("adamw", optim.AdamW)):
        made = optimizer_of(
            arguments_of(optimizer=name, lr=0.3, momentum=0.7, weight_decay=0.02), given
        )
        assert type(made) is kind
        assert made.defaults["betas"] == (0.7, 0.999)
        assert (made.defaults["lr"], made.defaults["weight_decay"]) == (0.3, 0.02)


@pytest.mark.parametrize(("momentum", "is_refused"), [(0.999, False), (1.0, True), (1.5, True)])
def test_a_first_beta_is_below_one_and_sgd_may_have_any(momentum, is_refused):
    given = [nn.Parameter(torch.ones(2))]
    assert optimizer_of(arguments_of(momentum=momentum), given).defaults["momentum"] == momentum
    if is_refused:
        with pytest.raises(UsageError, match="first beta of adam"):
            optimizer_of(arguments_of(optimizer="adam", momentum=momentum), given)
    else:
        optimizer_of(arguments_of(optimizer="adam", momentum=momentum), given)
    with pytest.raises(UnknownName, match="sgd, adam, adamw"):
        optimizer_of(arguments_of(optimizer="lion"), given)


def test_a_loss_by_either_spelling():
    assert loss_of("cross_entropy") is loss_of("cross-entropy") is F.cross_entropy
    assert loss_of("mse") is F.mse_loss
    assert loss_of("bce") is F.binary_cross_entropy_with_logits
    with pytest.raises(UnknownName, match=r"package\.module:function"):
        loss_of("hinge")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("mine:batch", True),
        ("folder:/x", False),
        ("npz:x", False),
        ("synthetic:a", False),
        ("digits", False),
    ],
)
def test_a_factory_is_told_from_a_data_set(name, is_one):
    assert is_factory(name) is is_one


def test_the_classes_of_a_batch_are_one_more_than_its_largest_label(mine):
    for labels, classes in (
        (torch.tensor([0, 2, 1, 2]), 3),
        (torch.zeros(4), 10),  # numbers are no labels
        (torch.zeros(4, 2, dtype=torch.long), 10),
        (torch.zeros(0, dtype=torch.long), 10),
    ):

        def batch(labels=labels):
            return torch.zeros(4, 3), labels

        assert batch_of(mine(batch), 64, 0)[1:] == ((3,), classes)


def test_the_first_batch_of_a_loader_and_none_of_an_empty_one(mine):
    def loader():
        yield [torch.zeros(2, 5), torch.tensor([0, 1])]
        yield "never"

    batch, shape, classes = batch_of(mine(loader), 64, 0)
    assert (type(batch), shape, classes) == (tuple, (5,), 2)

    def empty():
        return iter(())

    with pytest.raises(UsageError, match="gave no batch"):
        batch_of(mine(empty), 64, 0)


def test_a_batch_of_a_set_is_as_large_as_asked_and_the_same_for_a_seed():
    one, shape, classes = batch_of("digits", 12, 5)
    assert (len(one[0]), len(one[1]), shape, classes) == (12, 12, (1, 8, 8), 10)
    again, other = batch_of("digits", 12, 5)[0], batch_of("digits", 12, 6)[0]
    assert torch.equal(one[0], again[0])
    assert not torch.equal(one[0], other[0])
    tokens, shape, vocabulary = batch_of("copy", 3, 0)
    assert len(tokens[0]) == 3
    assert tokens[0].max() < vocabulary


def test_training_batches_take_every_sample_once_an_epoch():
    result = training_batches(arguments_of(batch_size=500), steps=5)
    assert [len(labels) for _, labels in result] == [500] * 5
    total = len(batch_of("digits", 10**6, 0)[0][1])
    assert total // 500 == 2, "two whole batches per epoch"
    for epoch in (result[:2], result[2:4]):
        pictures = torch.cat([x.flatten(1) for x, _ in epoch])
        assert len(pictures.unique(dim=0)) > 0.99 * len(pictures)
    again = training_batches(arguments_of(batch_size=500), steps=5)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(result, again, strict=True))
    small = training_batches(arguments_of(batch_size=10**6), steps=2)
    assert [len(labels) for _, labels in small] == [total] * 2


def test_training_batches_of_a_factory(mine):
    def one():
        return torch.zeros(2, 3), torch.tensor([0, 1])

    def several():
        return [(torch.full((2, 3), float(i)), torch.tensor([0, 1])) for i in range(3)]

    assert len(training_batches(arguments_of(data=mine(one)), steps=4)) == 4
    assert len(training_batches(arguments_of(data=mine(several)), steps=2)) == 2
    assert len(training_batches(arguments_of(data=mine(several)), steps=9)) == 3


def test_fresh_batches_go_on_without_end():
    setup = build_case(arguments_of(batch_size=7), "plain-8")
    drawn = iter(fresh_batches(setup, arguments_of(batch_size=7)))
    first, second = next(drawn), next(drawn)
    assert len(first[0]) == len(second[0]) == 7
    assert not torch.equal(first[0], second[0])


def test_a_case_is_the_same_for_a_seed_and_trains_what_is_trained(mine):
    def frozen():
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        model[0].requires_grad_(False)
        return model

    def batch():
        return torch.zeros(2, 4), torch.tensor([0, 1])

    def bare():
        return nn.ReLU()

    said = arguments_of(data=mine(batch), seed=3)
    one, two = (build_case(said, mine(frozen)) for _ in range(2))
    assert torch.equal(one.model[1].weight, two.model[1].weight)
    assert len(one.optimizer.param_groups[0]["params"]) == 2
    assert one.loss is F.cross_entropy
    with pytest.raises(UsageError, match="has no parameters"):
        build_case(said, mine(bare))


def test_sequences_have_the_loss_of_tokens_unless_another_is_given():
    setup = build_case(arguments_of(data="copy", set_=["width=8", "heads=2"]), "gpt-1")
    assert setup.loss is token_cross_entropy
    other = build_case(arguments_of(data="copy", loss="mse", set_=["width=8", "heads=2"]), "gpt-1")
    assert other.loss is F.mse_loss
    assert NamedRun(model="gpt-1", data="copy").loss == "token_cross_entropy"
    assert NamedRun(model="gpt-1", data="copy", loss="mse").loss == "mse"
    assert NamedRun(model="resnet-8").loss == "cross_entropy"
    assert NamedRun(model="resnet-8", loss="cross-entropy").loss == "cross_entropy"
    assert NamedRun(model="resnet-8", lr=0.1, seed=2).prefix() == "resnet-8-digits-lr0.1-seed2"


def test_weights_inside_of_a_checkpoint_are_found(tmp_path):
    state = {"weight": torch.ones(2)}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "w.pt")
    result, recipe = read_weights(tmp_path / "w.pt")
    assert list(result) == ["weight"]
    assert recipe is None
    torch.save(state, tmp_path / "plain.pt")
    assert list(read_weights(tmp_path / "plain.pt")[0]) == ["weight"]
    with pytest.raises(UsageError, match="There are no weights at"):
        read_weights(tmp_path / "none.pt")


def test_what_a_users_code_raises_is_one_sentence():
    for error, said in (
        (SystemExit(3), r"it failed: it called sys\.exit\(3\)"),
        (ValueError("no"), "it failed: ValueError: no"),
    ):
        with pytest.raises(UsageError, match=said), call_user_code("it failed"):
            raise error
    with pytest.raises(UsageError, match=r"^as it was$"), call_user_code("it failed"):
        raise UsageError("as it was")


def test_names_of_factories(mine):
    def make(width=2):
        return nn.Linear(width, width)

    def number():
        return 3

    name = mine(make)
    sizes = {"sample_shape": (1,), "num_classes": 2}
    assert model_of(name, options={"width": 5}, **sizes).in_features == 5
    with pytest.raises(UsageError, match="returned a int; it must return a torch module"):
        model_of(mine(number), options={}, **sizes)
    with pytest.raises(UnknownName, match="make"):
        factory_of("mine_of_build:mak")
    with pytest.raises(UsageError, match="there is no module nowhere_at_all, neither installed"):
        factory_of("nowhere_at_all:f")


def test_assignments_are_read_as_toml():
    result = read_assignments(["a=1", "b=true", "c=x=y", "d=", "e=[1, 2]", "f='q'"])
    assert result == {"a": 1, "b": True, "c": "x=y", "d": "", "e": [1, 2], "f": "q"}
    for word in ("a", "=1"):
        with pytest.raises(UsageError, match="is not KEY=VALUE"):
            read_assignments([word])


def claim(verdict, **changes):
    relation = {"what": "gap", "left": 0.123456, "sense": "≤", "right": 2.0, "holds": False}
    given = {
        "claim": "a.one",
        "verdict": verdict,
        "statement": "It holds.",
        "assumptions": (
            Assumption(statement="first", holds=True, value=3),
            Assumption(statement="second", holds=False),
        ),
        "numbers": {"relations": {"printed": [relation]}, "sizes": [1.23456, 2]},
    }
    return ClaimCheck(**given | changes)


def test_a_claim_in_words(capsys):
    _print_check(claim(Verdict.HOLDS, vacuous=True, corrected="less"), short=False)
    result = capsys.readouterr().out
    assert result.splitlines() == [
        "a.one: holds, vacuously",
        "    instead: less",
        "    It holds.",
        "    ✓ first (3)",
        "    ✗ second",
        "  as printed",
        "    ✗ gap: 0.1235 ≤ 2",
        "  numbers",
        "    sizes: 1.235 2",
    ]
    _print_check(claim(Verdict.VIOLATED, extra_assumption="more"), short=True)
    assert capsys.readouterr().out.splitlines() == ["a.one: violated", "    under: more"]
    assert _short({"a": 0.5, "b": [1, 2.0]}) == "a: 0.5, b: 1 2"


def test_a_summary_counts_every_verdict(capsys):
    rows = [
        {"claim": "a", "verdict": "holds", "status": "coded"},
        {"claim": "b", "verdict": "violated", "status": "coded"},
        {"claim": "c", "verdict": "holds", "status": "coded"},
        {"claim": "d", "verdict": None, "status": "definition"},
    ]
    _print_summary(rows)
    result = capsys.readouterr().out.splitlines()
    assert result[0] == "d: definition"
    assert result[-1].startswith("4 statements: ")
    assert "2 holds," in result[-1]
    assert "1 violated" in result[-1]
    assert result[-1].endswith("1 without a check.")


def test_runs_that_did_not_end_well_are_told(tmp_path, capsys):
    frame = pd.DataFrame(
        {
            "run": ["first-0123456789", "second-0123456789"],
            "lr": [0.1, 0.2],
            "model": ["m", "m"],
            "status": ["finished", "diverged"],
            "ending": ["finished", "loss is nan"],
            "test_loss": [0.123456, float("nan")],
        }
    )
    _say(tmp_path, frame)
    result = capsys.readouterr().out
    assert "2 runs: 1 finished, 1 diverged" in result
    assert "  second-0123456789: loss is nan" in result
    assert "first-0123456789:" not in result
    assert "…0123456789" in result
    assert "model" not in result  # all have the same
    assert "not begun" not in result
    _say(tmp_path, frame[:1])
    assert "1 run: 1 finished" in capsys.readouterr().out
    assert [_text(v) for v in (0.123456, float("nan"), None, 3)] == ["0.1235", "", "", "3"]


def test_a_file_of_that_name_is_told_and_a_name_of_any_length_is_only_unknown(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mynet.py").write_text("")
    sizes = {"options": {}, "sample_shape": (1, 8, 8), "num_classes": 2}
    with pytest.raises(UsageError, match=r"but a file mynet\.py; write mynet:FACTORY"):
        model_of("mynet", **sizes)
    for name in ("x" * 5000, "yournet"):
        with pytest.raises(UnknownName):
            model_of(name, **sizes)


def test_a_folder_is_told_from_a_name(tmp_path):
    assert build.is_folder(str(tmp_path))
    assert not build.is_folder(str(tmp_path / "none"))
    assert not build.is_folder("a\0b")
