"""Many runs as one computation against the same runs one by one."""

import pytest
import torch
from torch import nn

from bathyscope import data, nets
from bathyscope.core.errors import UsageError
from bathyscope.training import TrainingConfig, fit, fit_stacked
from bathyscope.training.batches import derived_seed
from bathyscope.training.stacked_forward import _Rowwise, stacked_forward

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(60, 4, generator=GENERATOR, dtype=torch.float64)
Y = X @ torch.randn(4, 4, generator=GENERATOR, dtype=torch.float64)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def classifier():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def linear_shortcuts():
    return nets.build("nshortcut-4-2", width=4, init="small")


def both_ways(build, train, configs, *, test=None):
    stacked = fit_stacked(build, train, configs=configs, test=test)
    for config, (outcome, weights) in zip(configs, stacked, strict=True):
        torch.manual_seed(derived_seed(config.seed, "weights"))
        model = build()
        yield outcome, weights, fit(model, train, config=config, test=test), model.state_dict()


def runs(rates, seeds, **settings):
    base = {"precision": "float64", "epochs": 12, "schedule": "constant"} | settings
    return [TrainingConfig(lr=lr, seed=seed, **base) for lr in rates for seed in seeds]


@pytest.mark.parametrize("build", [mlp, linear_shortcuts])
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": None, "momentum": 0.0, "weight_decay": 0.0},
        {"batch_size": 16, "momentum": 0.9, "weight_decay": 1e-3},
        {"batch_size": 16, "momentum": 0.5, "nesterov": True, "schedule": "cosine"},
        {"batch_size": 25, "max_steps": 10, "log_every": 3},
        {"batch_size": 30, "epochs": 5, "evaluate_every": 2},
    ],
    ids=["descent", "momentum", "nesterov", "max_steps", "seldom evaluated"],
)
def test_stacked_is_one_by_one(build, settings):
    configs = runs([1e-3, 3e-2], [0, 1, 5], loss="mse", **settings)
    for outcome, weights, other, expected in both_ways(build, (X, Y), configs, test=(X, Y)):
        assert outcome.status == other.status == "finished"
        assert len(outcome.history) == len(other.history)
        for a, b in zip(outcome.history, other.history, strict=True):
            assert a.pop("kind") == b.pop("kind")
            assert a == pytest.approx(b, rel=1e-9)
        for name, tensor in expected.items():
            torch.testing.assert_close(weights[name], tensor, rtol=1e-9, atol=1e-12)


def test_labels_and_accuracy():
    digits = data.load("digits", normalise=True, num_train=100, num_test=40)
    train = (digits.train_inputs, digits.train_labels)
    test = (digits.test_inputs, digits.test_labels)
    configs = runs([0.01, 0.1], [0, 1], batch_size=32, epochs=3, flip=True, shift=1)
    for outcome, _, other, _ in both_ways(classifier, train, configs, test=test):
        assert outcome.result == pytest.approx(other.result, rel=1e-9)
        assert outcome.result["test_accuracy"] > 0.1


@pytest.mark.parametrize("batch_size", [None, 16])
def test_diverged_runs_leave_the_stack_and_the_others_never_notice(batch_size):
    configs = runs([1e-3, 30.0, 1e-2, 1e5], [0, 1], loss="mse", batch_size=batch_size, epochs=40)
    found = list(both_ways(linear_shortcuts, (X, Y), configs))
    assert [o.status for o, *_ in found] == ["finished"] * 2 + ["diverged"] * 2 + [
        "finished"
    ] * 2 + ["diverged"] * 2
    for outcome, weights, other, expected in found:
        assert outcome.ending == other.ending
        if outcome.status == "finished":
            assert outcome.curve("loss") == pytest.approx(other.curve("loss"), rel=1e-9)
        assert all(torch.isfinite(w).all() for w in weights.values())
        assert weights.keys() == expected.keys()


def test_all_may_diverge():
    configs = runs([1e5], [0, 1], loss="mse", batch_size=None, epochs=60)
    trained = fit_stacked(linear_shortcuts, (X, Y), configs=configs)
    assert {outcome.status for outcome, _ in trained} == {"diverged"}


@pytest.mark.parametrize(("build", "quick"), [(mlp, True), (classifier, False)])
def test_the_quick_pass_is_taken_only_where_it_is_right(build, quick):
    models = [build() for _ in range(3)]
    stacked = {
        name: torch.stack([dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    x = torch.randn(3, 5, *((4,) if build is mlp else (8, 8)))
    forward = stacked_forward(models[0], stacked, x)
    assert isinstance(forward, _Rowwise) == quick
    for output, model, inputs in zip(forward(stacked, x), models, x, strict=True):
        torch.testing.assert_close(output, model(inputs))


@pytest.mark.parametrize(
    ("configs", "build", "words"),
    [
        ([], mlp, "no configuration"),
        ([TrainingConfig(epochs=1), TrainingConfig(epochs=2)], mlp, "epochs differs"),
        ([TrainingConfig(optimizer="adam")], mlp, "adam"),
        ([TrainingConfig(clip_norm=1.0)], mlp, "clip_norm"),
        ([TrainingConfig()], lambda: nn.BatchNorm1d(4), "buffer"),
        ([TrainingConfig()], lambda: nn.Sequential(mlp(), nn.Dropout(0.5)), "random numbers"),
    ],
)
def test_what_cannot_be_stacked_is_refused(configs, build, words):
    with pytest.raises(UsageError, match=words):
        fit_stacked(build, (X, Y), configs=configs)
