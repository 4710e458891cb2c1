"""What each small remedy does, in numbers: rates, norms, draws and factors."""

import math

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies import (
    DrawWeights,
    ReplaceOptimizer,
    ScaleWeights,
    StartRecurrence,
    WarmUp,
)
from bathyscope.remedies.change import Change
from bathyscope.remedies.drawing import draw_
from bathyscope.remedies.gradient_energy import GradientEnergy
from bathyscope.remedies.learned_factor import LearnFactors, times_factor
from bathyscope.remedies.remedy import python_list, submodule
from bathyscope.remedies.rescale import SetWeights
from bathyscope.remedies.settings import ClipGradient, DecayWeights, ScaleRate
from bathyscope.remedies.start import _few


def sgd(model, **settings):
    return torch.optim.SGD(model.parameters(), **{"lr": 1.0} | settings)


def one_weight(value=0.0):
    model = nn.Linear(1, 2, bias=False)
    nn.init.constant_(model.weight, value)
    return model


@pytest.mark.parametrize(("gradient", "step"), [((3.0, 4.0), (0.6, 0.8)), ((0.3, 0.4), (0.3, 0.4))])
def test_a_gradient_is_cut_to_the_norm_and_a_smaller_one_left(gradient, step):
    model = one_weight()
    optimizer = sgd(model)
    change = ClipGradient(norm=1.0).apply_(model, optimizer)
    model.weight.grad = torch.tensor(gradient)[:, None]
    optimizer.step()
    assert model.weight.flatten().tolist() == pytest.approx([-s for s in step], rel=1e-4)
    change.undo()
    model.weight.grad = torch.tensor([[30.0], [40.0]])
    optimizer.step()
    assert model.weight.detach().norm() > 40


def test_rates_rise_over_the_first_steps_and_are_put_back_after_each():
    model = one_weight()
    optimizer = sgd(model)
    change = WarmUp(steps=4).apply_(model, optimizer)
    moved = []
    for _ in range(6):
        before = model.weight.detach().clone()
        model.weight.grad = torch.ones(2, 1)
        optimizer.step()
        moved.append(float((before - model.weight.detach()).max()))
        assert optimizer.param_groups[0]["lr"] == 1.0
    assert moved == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    change.undo()
    assert WarmUp(steps=4).description == "warm-up over 4 steps"


def test_rates_and_decays_of_every_group():
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[1].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1, weight_decay=0.2)
    faster, decay = ScaleRate(factor=0.1), DecayWeights(value=0.03)
    first, second = faster.apply_(model, optimizer), decay.apply_(model, optimizer)
    held = optimizer.param_groups
    assert [g["lr"] for g in held] == pytest.approx([0.05, 0.01])
    assert [g["weight_decay"] for g in held] == [0.03, 0.03]
    second.undo()
    first.undo()
    assert [(g["lr"], g["weight_decay"]) for g in held] == [(0.5, 0.2), (0.1, 0.2)]
    assert (faster.description, decay.description) == ("learning rate × 0.1", "weight decay 0.03")
    assert DecayWeights(value=0.0).description == "no weight decay"

    class Bare(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

    with pytest.raises(UsageError, match="Bare has no setting 'lr' to change"):
        faster.apply_(model, Bare(model.parameters()))


def test_another_optimizer_holds_what_is_trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    given = sgd(model)
    made = ReplaceOptimizer(kind="sgd", lr=0.02, momentum=0.8, weight_decay=0.1)
    result = made.apply_(model, given).optimizer
    group = result.param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.02, 0.8, 0.1)
    assert [id(p) for p in group["params"]] == [id(p) for p in model[1].parameters()]
    assert given.param_groups[0]["lr"] == 1.0
    adam = ReplaceOptimizer().apply_(model, given).optimizer
    assert (type(adam), adam.defaults["lr"]) == (torch.optim.Adam, 3e-3)
    with pytest.raises(UsageError, match="requires a gradient; unfreeze"):
        made.apply_(model.requires_grad_(False), given)


def test_weights_are_scaled_with_their_bias_and_not_what_is_inside():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    change = ScaleWeights(factors={"0": 3.0, "1": 5.0}).apply_(model)
    after = dict(model.named_parameters())
    assert torch.equal(after["0.weight"], 3 * before["0.weight"])
    assert torch.equal(after["0.bias"], 3 * before["0.bias"])
    assert torch.equal(after["1.0.weight"], before["1.0.weight"])
    change.undo()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert ScaleWeights(factors={"0": 3.0}, purpose="smaller").description == "smaller (1 layers)"


def test_values_are_set_where_names_and_shapes_fit():
    model = nn.Linear(2, 1)
    change = SetWeights(values={"weight": [[1.0, 2.0]]}).apply_(model)
    assert model.weight.tolist() == [[1.0, 2.0]]
    change.undo()
    assert model.weight.tolist() != [[1.0, 2.0]]
    for wrong in ({"weight": [[1.0]]}, {"other": [[1.0, 2.0]]}):
        with pytest.raises(UsageError, match="the recipe was made for another one"):
            SetWeights(values=wrong).apply_(model)
    with pytest.raises(ValueError, match="are non-finite"):
        SetWeights(values={"weight": [[math.inf, 1.0]]})
    with pytest.raises(ValueError, match="not nested lists of numbers"):
        SetWeights(values={"weight": "ones"})


def test_a_normal_draw_has_the_deviation_of_its_fan_in():
    weight = torch.empty(400, 25, 2, 2)
    draw_(weight, "normal", 1.5, torch.Generator().manual_seed(0))
    # 40,000 draws: the deviation's own error is 0.35 %; five of them
    assert weight.std().item() == pytest.approx(1.5 / 10, rel=0.018)
    assert abs(weight.mean().item()) < 5 * 0.15 / 200


def test_an_orthogonal_draw_has_one_singular_value():
    weight = torch.empty(6, 2, 3, 3)
    draw_(weight, "orthogonal", 0.7, torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(weight.flatten(1))
    assert values.tolist() == pytest.approx([0.7] * 6, rel=1e-5)


@pytest.mark.parametrize(("shape", "middle"), [((4, 4, 3, 3), (1, 1)), ((4, 4, 5), (2,))])
def test_a_delta_orthogonal_draw_stands_at_the_middle_tap_alone(shape, middle):
    weight = torch.ones(shape)
    draw_(weight, "delta-orthogonal", 0.7, torch.Generator().manual_seed(0))
    tap = weight[(slice(None), slice(None), *middle)]
    assert torch.linalg.svdvals(tap).tolist() == pytest.approx([0.7] * 4, rel=1e-5)
    assert weight.square().sum() == pytest.approx(tap.square().sum())
    flat = torch.ones(4, 4)
    draw_(flat, "delta-orthogonal", 0.7, torch.Generator().manual_seed(0))
    assert torch.linalg.svdvals(flat).tolist() == pytest.approx([0.7] * 4, rel=1e-5)


def test_drawn_anew_biases_are_zero_and_norms_begin_again():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.PReLU())
    for parameter in model.parameters():
        nn.init.constant_(parameter, 7.0)
    model[1].running_mean.fill_(7.0)
    change = DrawWeights(gain=2.0).apply_(model)
    assert model[0].bias.abs().max() == 0
    assert model[1].weight.tolist() == [1.0] * 3
    assert model[1].bias.tolist() == [0.0] * 3
    assert model[1].running_mean.tolist() == [0.0] * 3
    assert model[2].weight.item() == 7.0  # neither a map nor a norm
    change.undo()
    assert model[1].running_mean.tolist() == [7.0] * 3
    assert model[0].weight.tolist() == [[7.0] * 3] * 3


def test_draws_of_some_layers_leave_the_others_and_follow_the_seed():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    before = model[0].weight.detach().clone()
    DrawWeights(layers=("1",), seed=4).apply_(model)
    assert torch.equal(model[0].weight, before)
    once = model[1].weight.detach().clone()
    DrawWeights(layers=("1",), seed=5).apply_(model)
    assert not torch.equal(model[1].weight, once)
    DrawWeights(layers=("1",), seed=4).apply_(model)
    assert torch.equal(model[1].weight, once)
    for nothing in (nn.ReLU(), nn.Linear(2, 2).requires_grad_(False)):
        with pytest.raises(UsageError, match="no weight of a linear map"):
            DrawWeights().apply_(nothing)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.LSTMCell])
def test_a_recurrence_is_orthogonal_gate_by_gate_and_forget_gates_are_open(kind):
    model = kind(3, 4)
    change = StartRecurrence(forget_bias=1.5).apply_(model)
    named = dict(model.named_parameters())
    recurrent = next(p for name, p in named.items() if name.startswith("weight_hh"))
    for gate in recurrent.detach().split(4):
        assert torch.linalg.svdvals(gate).tolist() == pytest.approx([1.0] * 4, rel=1e-5)
    for name, bias in named.items():
        if name.startswith("bias"):
            is_open = "ih" in name and kind is not nn.GRU
            expected = [1.5 if is_open and 4 <= i < 8 else 0.0 for i in range(len(bias))]
            assert bias.tolist() == expected
    change.undo()
    with pytest.raises(UsageError, match="no recurrent layer"):
        StartRecurrence().apply_(nn.Linear(2, 2))


def test_learned_factors_multiply_are_trained_without_decay_and_can_be_taken_away():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    optimizer = sgd(model, weight_decay=0.1, momentum=0.5)
    x = torch.randn(2, 3)
    before = model(x)
    change = LearnFactors(layers=("1",), size=3, start=0.25).apply_(model, optimizer)
    assert torch.allclose(model(x), 0.25 * before)
    group = optimizer.param_groups[-1]
    assert (len(group["params"]), group["weight_decay"], group["momentum"]) == (1, 0.0, 0.5)
    with pytest.raises(UsageError, match="it has one already"):
        LearnFactors(layers=("1",)).apply_(model, optimizer)
    change.undo()
    assert torch.equal(model(x), before)
    assert len(optimizer.param_groups) == 1
    with pytest.raises(UsageError, match="or no parameter"):
        LearnFactors(layers=("",)).apply_(nn.ReLU(), optimizer)


def test_the_words_of_learned_factors():
    result = [
        LearnFactors(layers=("a", "b"), size=size, start=start).description
        for size, start in ((1, 0.0), (1, 0.5), (8, 0.0), (8, 0.1))
    ]
    assert result == [
        "ReZero on 2 branches",
        "Learned factors from 0.5 on 2 branches",
        "LayerScale from 0 on 2 branches",
        "LayerScale from 0.1 on 2 branches",
    ]
    assert LearnFactors(layers=("a", "b")).num_added == 2


def test_a_factor_is_for_the_first_of_several_outputs():
    module = nn.Linear(1, 1)
    module.register_parameter("branch_factor", nn.Parameter(torch.tensor([3.0])))
    first, second = times_factor(module, (), (torch.ones(2), torch.ones(2)))
    assert (first.tolist(), second.tolist()) == ([3.0, 3.0], [1.0, 1.0])
    with pytest.raises(TypeError, match="a tensor or a tuple"):
        times_factor(module, (), {"out": torch.ones(2)})


def test_changes_are_taken_back_last_first_and_once():
    done = []
    change = Change("two").undone_by(lambda: done.append("first"))
    change.undone_by(lambda: done.append("second"))
    change.undo()
    change.undo()
    assert done == ["second", "first"]


def test_lists_of_names_in_code():
    names = tuple("abcdefghijklmnopqr")
    assert len(python_list(names)) == 90
    assert "\n" not in python_list(names)
    longer = python_list((*names, "s"))
    assert longer.startswith("[\n    ")
    assert max(map(len, python_list(tuple(f"layer{i}" for i in range(99))).splitlines())) <= 100
    assert eval(longer) == [*names, "s"]
    assert _few(("a", "b", "c")) == "a, b, c"
    assert _few(("a", "b", "c", "d")) == "a, b, c and 1 more"
    with pytest.raises(UsageError, match="has no module 'x'"):
        submodule(nn.Linear(1, 1), "x")


@pytest.mark.parametrize(
    ("fraction", "target"),
    [(None, None), (1.0, 1.0), (4.0, 1.0), (0.25, 2.0), (0.0625, 4.0), (0.001, 4 / 0.5**0.5)],
)
def test_the_gain_of_a_gradient_is_held_between_one_and_four_times_the_isotropic(fraction, target):
    energy = GradientEnergy(nn.Linear(2, 2), rank_fraction=0.5, rank=2)
    energy.fraction = fraction
    assert energy.target == (None if target is None else pytest.approx(target))


def test_the_share_is_a_running_mean_of_a_tenth_each():
    layer = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]]))
    energy = GradientEnergy(layer, rank_fraction=0.5, rank=1)
    for gradient, fraction in (((3.0, 4.0), 9 / 25), ((1.0, 0.0), 0.9 * 9 / 25 + 0.1)):
        layer(torch.ones(1, 4)).backward(torch.tensor([gradient]))
        energy.update()
        assert energy.fraction == pytest.approx(fraction, rel=1e-6)
    layer(torch.ones(1, 4)).backward(torch.tensor([[0.0, 0.0]]))
    energy.update()  # a gradient of nothing says nothing
    assert energy.fraction == pytest.approx(0.9 * 9 / 25 + 0.1, rel=1e-6)
    energy.remove()
    layer(torch.ones(1, 4)).backward(torch.tensor([[0.0, 1.0]]))
    energy.update()
    assert energy.fraction == pytest.approx(0.9 * 9 / 25 + 0.1, rel=1e-6)
