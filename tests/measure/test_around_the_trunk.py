"""What is measured around the body, each number beside one computed the long way."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure.graph import adjacent_maps, is_linear, output_activation
from bathyscope.measure.inputs_and_labels import inputs_measurement, labels_measurement
from bathyscope.measure.loss_form import LossForm, constant_baseline, loss_form, trial_of
from bathyscope.measure.next_step import loss_after, next_steps
from bathyscope.measure.standard import standard

LABELS = torch.tensor([0, 2, 1, 0, 0, 2, 1, 1])
HOT = F.one_hot(LABELS, 3).float()
LOGITS = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
CHANCES = LOGITS.softmax(1)


def keras(p, y):
    return -(p / p.sum(1, keepdim=True)).gather(1, y.unsqueeze(1)).log().mean()


@pytest.mark.parametrize(
    ("loss", "output", "targets", "form"),
    [
        (F.cross_entropy, LOGITS, LABELS, ("one class", "logits")),
        (nn.CrossEntropyLoss(label_smoothing=0.1), LOGITS, LABELS, ("one class", "logits")),
        (partial(F.cross_entropy, reduction="sum"), LOGITS, HOT, ("one class", "logits")),
        (lambda o, t: F.nll_loss(o.log_softmax(1), t), LOGITS, LABELS, ("one class", "logits")),
        (F.nll_loss, LOGITS.log_softmax(1), LABELS, ("one class", "log-probabilities")),
        (lambda p, t: F.nll_loss(p.log(), t), CHANCES, LABELS, ("one class", "probabilities")),
        (keras, CHANCES, LABELS, ("one class", "probabilities")),
        (nn.BCEWithLogitsLoss(), LOGITS, HOT, ("each class", "logits")),
        (nn.BCELoss(), LOGITS.sigmoid(), HOT, ("each class", "probabilities")),
        (F.mse_loss, LOGITS, HOT, ("distance", "values")),
        (F.l1_loss, LOGITS, HOT, ("distance", "values")),
        (nn.HuberLoss(), LOGITS, HOT, ("distance", "values")),
    ],
)
def test_a_loss_is_known_by_how_it_behaves(loss, output, targets, form):
    trial = trial_of(loss, output, targets)
    leaf = output.clone().requires_grad_()
    from bathyscope.measure.graph import operations_between

    through = leaf * 1
    result = loss_form(trial, output, operations_between(loss(through, targets), through))
    assert result == LossForm(*form)


@pytest.mark.parametrize(
    ("loss", "targets", "form"),
    [
        (F.cross_entropy, LABELS, LossForm("one class", "logits")),
        (nn.BCEWithLogitsLoss(), HOT, LossForm("each class", "logits")),
        (F.mse_loss, torch.randn(8, 3) * 5 + 2, LossForm("distance", "values")),
        (F.l1_loss, torch.randn(8, 3) * 5 + 2, LossForm("distance", "values")),
    ],
)
def test_the_best_constant_answer_is_where_descent_on_one_ends(loss, targets, form):
    trial = trial_of(loss, torch.zeros(8, 3), targets)
    answer = torch.zeros(1, 3, requires_grad=True)
    optimizer = torch.optim.LBFGS([answer], max_iter=300, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        value = loss(answer.expand(8, 3), targets)
        value.backward()
        return value

    optimizer.step(closure)
    assert constant_baseline(trial, form) <= float(closure()) + 1e-4


def test_the_activation_at_the_end_is_seen_through_reshapes_and_functions():
    x = torch.randn(4, 3)
    layer = nn.Linear(3, 2)
    for call, name in (
        (lambda z: z.softmax(1).unsqueeze(2), "softmax"),
        (lambda z: torch.sigmoid(z).flatten(), "sigmoid"),
        (F.relu, "relu"),
        (lambda z: z.log_softmax(1), "log-softmax"),
        (lambda z: z.relu() + 1, "none"),
    ):
        assert output_activation(call(layer(x))).name == name


def test_linear_networks_are_those_that_map_a_mean_to_the_mean():
    x = torch.randn(16, 6)
    bare = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.0), nn.Linear(8, 3))
    bent = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    for model, linear in ((bare, True), (bent, False)):
        gap = (model(x.mean(0, keepdim=True)) - model(x).mean(0)).abs().max()
        assert bool(gap < 1e-5) is linear
        assert is_linear(model(x)) is linear
    assert adjacent_maps(bent(x)).pairs == 0
    assert adjacent_maps(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3), nn.ReLU())(x)).pairs == 1
    assert (
        adjacent_maps(nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 5))(x)).pairs == 0
    )  # a bottleneck


def test_the_layers_of_a_linear_pair_are_named():
    model = nn.Sequential(
        nn.Linear(5, 6), nn.Flatten(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)
    )
    settings = standard(model, (torch.randn(8, 5), LABELS), loss=F.cross_entropy)["output"].settings
    assert settings["adjacent_names"] == "0 and 2"


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_the_loss_after_a_step_is_that_of_the_step_taken(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Dropout(0.4), nn.ReLU(), nn.Linear(7, 3))
    optimizer = kind(model.parameters(), lr=0.05)
    x, y = torch.randn(8, 5), LABELS
    state = torch.get_rng_state()
    twin, stepper = copy.deepcopy((model, optimizer))
    F.cross_entropy(twin(x), y).backward()
    stepper.step()
    torch.set_rng_state(state)
    expected = float(F.cross_entropy(twin(x), y))
    torch.set_rng_state(state)
    result = standard(model, (x, y), loss=F.cross_entropy, optimizer=optimizer)
    assert result["step"].settings["loss_after"] == pytest.approx(expected, rel=1e-5)
    assert torch.equal(torch.get_rng_state(), state)


def test_tied_weights_step_together():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    value = F.mse_loss(model(x), y)
    gradients = {"0.weight": torch.autograd.grad(value, model[0].weight)[0]}
    steps = next_steps(model, gradients, torch.optim.SGD(model.parameters(), lr=0.1))
    w = (model[0].weight + steps["0.weight"]).detach().float()
    expected = F.mse_loss(x @ w.T @ w.T, y)
    assert loss_after(model, (x, y), steps, loss=F.mse_loss) == pytest.approx(float(expected))


def test_numbers_of_a_table():
    x = torch.tensor([[0.0, 1.0, 7.0], [2.0, 1.0, 700.0], [0.0, 1.0, 7.0], [2.0, 1.0, 700.0]])
    result = inputs_measurement(x).settings
    assert result["largest"] == 700.0
    assert result["column_range"] == pytest.approx(346.5)
    assert (result["wide_column"], result["narrow_column"], result["constant_columns"]) == (2, 0, 1)
    assert result["repeated_samples"] == 0.5
    assert inputs_measurement(torch.zeros(3, 2, dtype=torch.long)).settings == {}


def test_numbers_of_labels():
    x = torch.randn(8, 4)
    result = labels_measurement(x, torch.tensor([1, -100, 1, 2, -100, 2, 2, 2])).settings
    assert (result["ignored"], result["different"], result["samples"]) == (0.25, 2, 6)
    named = labels_measurement({"input_ids": x, "labels": LABELS}, None).settings
    assert named["different"] == 3


def test_dropout_norms_and_mode_are_heard_in_the_pass():
    model = nn.Sequential(
        nn.Linear(4, 6), nn.GroupNorm(6, 6), nn.ReLU(), nn.Dropout(0.8), nn.Linear(6, 3)
    )
    batch = torch.randn(8, 4), LABELS
    result = standard(model, batch, loss=F.cross_entropy)["mode"].settings
    assert (result["training"], result["lone_norms"], result["dropped"]) == (True, 1, 0.8)
    result = standard(model.eval(), batch, loss=F.cross_entropy)["mode"].settings
    assert (result["training"], result["dropped"], result["resting"]) == (False, 0.0, 1)


def test_parameters_that_are_frozen_missing_unreached_or_without_gradient():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    model.register_parameter("spare", nn.Parameter(torch.ones(2)))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.SGD([model[0].weight, model[2].bias], lr=0.1, weight_decay=0.5)
    batch = torch.randn(8, 4), LABELS
    result = standard(model, batch, loss=F.cross_entropy, optimizer=optimizer)[
        "parameters"
    ].settings
    assert (result["frozen_names"], result["missing_names"]) == ("0.bias", "2.weight")
    assert result["unreached_names"] == "spare"
    gradient = torch.autograd.grad(F.cross_entropy(model(batch[0]), LABELS), model[0].weight)[0]
    expected = 0.5 * model[0].weight.norm() / gradient.norm()
    assert result["largest_decay"] == 0.5
    assert result["decay_over_gradient"] == pytest.approx(float(expected), rel=1e-4)
