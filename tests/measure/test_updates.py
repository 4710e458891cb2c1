import copy
import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.linalg import rounding_tolerance
from bathyscope.measure import updates
from bathyscope.measure.next_step import next_steps
from bathyscope.measure.updates import Step
from tests.core import lookalikes as like
from tests.measure.by_hand import CASES

OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1),
    "momentum": functools.partial(
        torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-2, nesterov=True
    ),
    "adam": functools.partial(torch.optim.Adam, lr=1e-3),
    "adamw": functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1, amsgrad=True),
    "adam foreach": functools.partial(torch.optim.Adam, lr=1e-3, foreach=True),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=1e-3, centered=True),
    "adagrad": functools.partial(torch.optim.Adagrad, lr=1e-2),
    "nadam": functools.partial(torch.optim.NAdam, lr=1e-3),
}


def trained_a_little(pieces, build):
    """The model after two steps, with an optimizer whose state is not empty."""
    groups = [
        {"params": [p for p in pieces.model.parameters() if p.ndim > 1]},
        {"params": [p for p in pieces.model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = build(groups)
    inputs, targets = pieces.batch
    for _ in range(2):
        optimizer.zero_grad()
        output = pieces.model(**inputs) if isinstance(inputs, dict) else pieces.model(inputs)
        pieces.loss(output, targets).backward()
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def really_stepped(model, optimizer, pieces):
    """ΔW of a real step, taken on a copy of model and optimizer together."""
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    inputs, targets = pieces.batch
    twin_optimizer.zero_grad()
    output = twin(**inputs) if isinstance(inputs, dict) else twin(inputs)
    pieces.loss(output, targets).backward()
    twin_optimizer.step()
    before = dict(model.named_parameters())
    return {n: (p - before[n]).detach() for n, p in twin.named_parameters()}


GRID = [
    pytest.param(
        name,
        case,
        marks=() if case == "perceptron" or name in ("momentum", "adamw") else pytest.mark.slow,
    )
    for name in OPTIMIZERS
    for case in CASES
]


@pytest.mark.parametrize(("name", "case"), GRID)
def test_agrees_with_a_step_really_taken(name, case):
    pieces = CASES[case]()
    optimizer = trained_a_little(pieces, OPTIMIZERS[name])
    steps = really_stepped(pieces.model, optimizer, pieces)
    result = updates(pieces.model, pieces.batch, loss=pieces.loss, optimizer=optimizer)
    for i, block in enumerate(pieces.names):
        named = {
            n: p.detach()
            for n, p in pieces.model.named_parameters()
            if n.startswith(f"{block}.") and p.ndim > 1
        }
        moved = sum(steps[n].square().sum() for n in named).sqrt()
        size = sum(w.square().sum() for w in named.values()).sqrt()
        assert result["ratio"][i] == pytest.approx((moved / size).item(), rel=1e-6)
        ratios = {n: (steps[n].norm() / w.norm()).item() for n, w in named.items()}
        largest = max(ratios, key=ratios.get)
        assert result["largest_ratio"][i] == pytest.approx(ratios[largest], rel=1e-6)
        assert result["largest_ratio_layer"][i] == largest
        fractions = []
        for n, w in named.items():
            values = torch.linalg.svdvals(steps[n].flatten(1))
            rounding = rounding_tolerance(len(values), len(values), torch.float64)
            tolerance = rounding * max(1, (w.norm() / steps[n].norm()).item())
            fractions.append((values > tolerance * values[0]).sum().item() / len(values))
        assert result["rank_fraction"][i] == pytest.approx(min(fractions))
        values = [torch.linalg.svdvals(steps[n].flatten(1)) for n in named]
        stable = min(((v / v[0]) ** 2).sum().item() for v in values)
        assert result["stable_rank"][i] == pytest.approx(stable, rel=1e-6)
        assert result["lost"][i] == 0
        assert result["non_finite"][i] == 0


def test_model_and_optimizer_are_left_as_they_were():
    pieces = CASES["perceptron"]()
    optimizer = trained_a_little(pieces, OPTIMIZERS["adam"])
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = copy.deepcopy(optimizer.state_dict())
    weights = [p.detach().clone() for p in pieces.model.parameters()]
    updates(pieces.model, pieces.batch, loss=pieces.loss, optimizer=optimizer)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for index, state in before["state"].items():
        for key, value in state.items():
            assert torch.equal(value, after["state"][index][key])
            assert value.dtype == after["state"][index][key].dtype
    assert all(torch.equal(a, b) for a, b in zip(weights, pieces.model.parameters(), strict=True))
    assert scheduler.last_epoch == 0


def test_steps_below_rounding_are_measured_and_counted_as_lost():
    model = nn.Sequential(nn.Linear(4, 4, bias=False))
    nn.init.ones_(model[0].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    result = updates(
        model, (torch.ones(1, 4), None), loss=lambda y, _: y.sum(), optimizer=optimizer
    )
    assert result["ratio"][0] == pytest.approx(1e-12, rel=1e-9)
    assert result["lost"] == (1.0,)


def test_rank_of_the_update_is_at_most_that_of_the_input():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    rows = torch.outer(torch.arange(1.0, 9.0), torch.arange(1.0, 7.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = updates(model, (rows, torch.arange(8) % 3), loss=F.cross_entropy, optimizer=optimizer)
    assert result["rank_fraction"][0] == 1 / 5
    assert result["rank_layer"][0] == "0.weight"


def test_frozen_unused_and_zero_weights():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    nn.init.zeros_(model[1].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = updates(
        model, (torch.randn(5, 4), torch.zeros(5).long()), loss=F.cross_entropy, optimizer=optimizer
    )
    assert result["ratio"][0] is None
    assert result["ratio"][1] == float("inf")
    assert result["largest_ratio"][1] is None
    assert result["ratio"][2] > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_narrow_parameters_step_like_wide_ones(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)
    batch = torch.randn(16, 6).to(dtype), torch.arange(16) % 3
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    narrow = updates(model, batch, loss=F.cross_entropy, optimizer=optimizer)
    wide_model = copy.deepcopy(model).double()
    wide = updates(
        wide_model,
        (batch[0].double(), batch[1]),
        loss=F.cross_entropy,
        optimizer=torch.optim.Adam(wide_model.parameters(), lr=1e-2),
    )
    assert narrow["ratio"] == pytest.approx(wide["ratio"], rel=2e-2)


def test_sparse_gradients():
    model = like.HuggingFaceLike()
    model.embeddings.sparse = True
    batch = {"input_ids": torch.randint(11, (4, 5))}, torch.arange(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = updates(
        model,
        batch,
        loss=lambda o, t: F.cross_entropy(o.logits, t),
        optimizer=optimizer,
        blocks=["layer.*.mlp"],
    )
    assert None not in result["ratio"]


def test_optimizers_that_cannot_be_used_are_told_in_one_sentence():
    pieces = CASES["perceptron"]()
    for optimizer, message in (
        (torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), "none of the model's parameters"),
        (torch.optim.LBFGS(pieces.model.parameters()), "closure"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            updates(pieces.model, pieces.batch, loss=pieces.loss, optimizer=optimizer)
        assert "\n" not in str(caught.value)


def step(change, *, weight=1.0, dtype=torch.float32):
    change = torch.as_tensor(change, dtype=torch.float64)
    norm = weight * math.sqrt(change.numel())
    size = float(torch.linalg.vector_norm(change))
    return Step("w", change, dtype, norm, size, change.numel(), 0)


def test_the_cutoff_of_a_step_is_the_coarser_rounding_and_at_most_a_half():
    ordinary = step(torch.ones(4, 9) * 0.1)
    assert ordinary.tolerance == rounding_tolerance(4, 9, torch.float32)
    tiny = step(torch.ones(4, 9) * 1e-12)
    assert tiny.tolerance == pytest.approx(rounding_tolerance(4, 9, torch.float64) * 1e12, rel=1e-6)
    lost = step(torch.ones(4, 9) * 1e-20)
    assert lost.tolerance == 0.5
    double = step(torch.ones(4, 9) * 0.1, dtype=torch.float64)
    assert double.tolerance == pytest.approx(rounding_tolerance(4, 9, torch.float64) * 10)


def test_a_side_as_large_as_the_largest_is_decomposed():
    model = nn.Sequential(nn.Linear(3, 5, bias=False))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(8, 3), torch.randn(8, 5)
    result = updates(model, batch, loss=F.mse_loss, optimizer=sgd, largest_side=3)
    assert result["rank_fraction"] == (1.0,)
    assert not result.notes
    left_out = updates(model, batch, loss=F.mse_loss, optimizer=sgd, largest_side=2)
    assert left_out["rank_fraction"] == (None,)
    assert "largest_side" in left_out.notes[0]


def test_the_state_of_an_optimizer_is_taken_in_float64():
    """Δ = −lr (μ m + g), not rounded to the dtype of m."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 4, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer.weight.grad = torch.randn(4, 5)
    optimizer.step()
    momentum = optimizer.state[layer.weight]["momentum_buffer"].double()
    gradient = torch.randn(4, 5)
    result = next_steps(layer, {"weight": gradient}, optimizer)["weight"]
    expected = -0.1 * (0.9 * momentum + gradient.double())
    # taken in float64: rounded once, at the end
    torch.testing.assert_close(result, expected.float(), rtol=1e-7, atol=0.0)


class Mixed(nn.Module):
    """Parameters of unlike shapes and dtypes, one of them without an axis."""

    def __init__(self):
        super().__init__()
        self.fc, self.conv = nn.Linear(4, 5), nn.Conv2d(2, 3, 3)
        self.gain = nn.Parameter(torch.tensor(0.3))
        self.wide = nn.Parameter(torch.randn(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (torch.optim.Adam, {"lr": 0.1, "amsgrad": True}),
        (torch.optim.AdamW, {"lr": 0.1}),
        (torch.optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.5}),
        (torch.optim.Adagrad, {"lr": 0.1}),
        (torch.optim.Adadelta, {}),
        (torch.optim.Adamax, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.RAdam, {}),
    ],
)
def test_parameters_that_are_stepped_as_one_vector_step_as_each_by_itself(
    kind, options, monkeypatch
):
    torch.manual_seed(0)
    model = Mixed()
    fc, conv = model.fc, model.conv
    groups = [
        {"params": [fc.weight, model.gain]},
        {"params": [fc.bias, model.wide, *conv.parameters()], "lr": 0.01},
    ]
    optimizer = kind(groups, **options)
    for step in range(7):  # one of them joins later, so that counts of steps differ
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        if step == 0:
            conv.bias.grad = None
        optimizer.step()
        gradients = {name: torch.randn_like(p) for name, p in model.named_parameters()}
        joined = next_steps(model, gradients, optimizer)
        with monkeypatch.context() as patch:
            patch.setattr("bathyscope.measure.next_step.steps_one_by_one", lambda optimizer: False)
            alone = next_steps(model, gradients, optimizer)
        assert list(joined) == list(alone)
        for name, change in alone.items():
            torch.testing.assert_close(joined[name], change, rtol=1e-12, atol=1e-14)


class LayerScaled(nn.Module):
    """x + γ ⊙ fc(x), its gains from a small number on."""

    def __init__(self, gains):
        super().__init__()
        self.fc, self.gain = nn.Linear(8, 8), nn.Parameter(gains)

    def forward(self, x):
        return x + self.gain * self.fc(x)


def test_gains_that_start_small_by_design_are_not_replaced_weights():
    def largest(gains):
        torch.manual_seed(0)
        model = nn.Sequential(*(LayerScaled(gains.clone()) for _ in range(3)), nn.Linear(8, 4))
        batch = torch.randn(16, 8), torch.arange(16) % 4
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        result = updates(model, batch, loss=F.cross_entropy, optimizer=optimizer)
        return result.columns["largest_ratio"][0]

    assert largest(torch.full((1, 8), 1e-6)) < 0.1  # LayerScale as ConvNeXt starts it
    assert largest(torch.full((1, 8), 1e-6) * torch.linspace(1, 2, 8)) > 100  # not one number
