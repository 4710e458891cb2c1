"""Steps are judged as a loop takes them: with its schedule, clipping, accumulation and scaler."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UsageError
from bathyscope.core.step_settings import StepSettings
from bathyscope.core.stepping import copy_training
from tests.loops.tasks import mlp


@pytest.fixture
def case():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 4), torch.randn(32, 8)
    return model, (x, x[:, :4].argmax(1)), torch.optim.SGD(model.parameters(), lr=0.1)


def codes(diagnosis):
    return {f.code for f in diagnosis.findings}


def ratio(diagnosis):
    return diagnosis.measurements["updates"]["ratio"][0]


def test_a_warm_up_from_zero_is_no_small_update(case):
    model, batch, optimizer = case
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, n / 10))
    assert optimizer.param_groups[0]["lr"] == 0
    assert "small-update" in codes(bs.diagnose(model, batch, optimizer=optimizer))
    found = bs.diagnose(model, batch, optimizer=optimizer, scheduler=schedule)
    assert "small-update" not in codes(found)
    assert found.measurements["updates"].settings["learning_rates"] == [pytest.approx(0.01)]
    assert optimizer.param_groups[0]["lr"] == 0
    assert schedule.last_epoch == 0


def test_a_warm_up_is_judged_by_where_it_leads(case):
    model, batch, _ = case

    def found(largest, steps=1000):
        optimizer = torch.optim.AdamW(model.parameters(), lr=largest)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 60))
        one = bs.diagnose(model, batch, optimizer=optimizer, scheduler=schedule, budget=steps)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(largest / 60)
        assert schedule.last_epoch == 0
        return [f for f in one.findings if f.code == "large-update"]

    (large,) = found(1.0)
    assert large.evidence["rate_growth"] == pytest.approx(60)
    assert "schedule" in large.title
    assert not found(0.01)
    assert not found(1.0, steps=2)  # it does not get there


def test_a_long_warm_up_is_no_small_update(case):
    model, batch, optimizer = case
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1e-6) / 100))
    assert "small-update" in codes(bs.diagnose(model, batch, optimizer=optimizer))
    found = bs.diagnose(model, batch, optimizer=optimizer, scheduler=schedule)
    assert "small-update" not in codes(found)


def test_a_schedule_that_cannot_be_copied_tells_no_rate_to_come(case):
    _, _, optimizer = case
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)  # wants a metric
    assert StepSettings(schedule).rate_growth(optimizer, None) == 1.0
    assert StepSettings().rate_growth(optimizer, None) == 1.0


def test_a_warm_up_holds_for_a_copy_of_the_optimizer_too(case, monkeypatch):
    """As on a device without double precision, or of several processes."""
    model, batch, optimizer = case
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, n / 10))
    module = importlib.import_module("bathyscope.diagnosis.diagnose")
    monkeypatch.setattr(module, "lacks_double", lambda m: m is model)
    found = bs.diagnose(model, batch, optimizer=optimizer, scheduler=schedule)
    assert "small-update" not in codes(found)
    assert optimizer.param_groups[0]["lr"] == 0


def test_a_schedule_that_stays_at_zero_is_one(case):
    model, batch, optimizer = case
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: n // 10**6)
    found = bs.diagnose(model, batch, optimizer=optimizer, scheduler=schedule)
    assert "small-update" in codes(found)


def test_the_step_is_that_of_clipped_and_accumulated_gradients(case):
    model, batch, optimizer = case
    plain = ratio(bs.diagnose(model, batch, optimizer=optimizer))
    mean = ratio(bs.diagnose(model, batch, optimizer=optimizer, accumulate=4))
    assert mean == pytest.approx(plain, rel=1e-5)  # of four batches like this one
    with StepSettings(times=4.0).applied_to(optimizer):
        four = ratio(bs.diagnose(model, batch, optimizer=optimizer))
    assert four == pytest.approx(4 * plain, rel=1e-4)
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    norm = float(nn.utils.get_total_norm([p.grad for p in model.parameters()]))
    clipped = ratio(bs.diagnose(model, batch, optimizer=optimizer, clip=norm / 10))
    assert clipped == pytest.approx(plain / 10, rel=1e-3)
    assert not optimizer._optimizer_step_pre_hooks


def test_clipped_loops_do_not_overshoot():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 1), torch.randn(64, 8)
    batch = x, 300 * x[:, :1]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    assert "overshooting-step" in codes(
        bs.diagnose(model, batch, loss=F.mse_loss, optimizer=optimizer)
    )
    found = bs.diagnose(model, batch, loss=F.mse_loss, optimizer=optimizer, clip=0.5)
    assert "overshooting-step" not in codes(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clip": -1.0}, "a number above zero"),
        ({"accumulate": 0}, "at least 1"),
        ({"scheduler": 0.1}, "torch.optim.lr_scheduler"),
        ({"scaler": 65536.0}, "GradScaler"),
    ],
)
def test_what_does_not_fit(case, given, words):
    model, batch, optimizer = case
    with pytest.raises(UsageError, match=words):
        bs.diagnose(model, batch, optimizer=optimizer, **given)


def test_settings_without_an_optimizer(case):
    model, batch, _ = case
    with pytest.raises(UsageError, match="give optimizer= too"):
        bs.diagnose(model, batch, clip=1.0)


def test_the_schedule_of_another_optimizer(case):
    model, _, optimizer = case
    other = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(other, 3)
    with pytest.raises(UsageError, match="another optimizer"):
        StepSettings(scheduler=schedule).check(optimizer)


def test_a_loss_that_squeezes_its_output_is_not_broadcast():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 1), torch.randn(32, 8)
    batch = x, x[:, 0]
    squeezed = bs.diagnose(model, batch, loss=lambda y, t: (y.squeeze(1) - t).square().mean())
    assert "broadcast-loss" not in codes(squeezed)
    stretched = bs.diagnose(model, batch, loss=lambda y, t: (y - t).square().mean())
    assert "broadcast-loss" in codes(stretched)


def test_a_last_layer_that_starts_at_zero_cuts_nothing():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 4), torch.randn(64, 8)
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    assert not {"cut-gradient", "singular-representation"} & codes(
        bs.diagnose(model, (x, x[:, :4].argmax(1)))
    )


def test_log_cosh_is_a_distance():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 1), torch.randn(64, 8)
    found = bs.diagnose(
        model, (x, 2 * x[:, :1]), loss=lambda y, t: torch.log(torch.cosh(y - t)).mean()
    )
    assert "labels-out-of-range" not in codes(found)


def test_a_generators_loss_asks_for_no_labels():
    torch.manual_seed(0)
    model, x = mlp(8, 32, 1), torch.randn(64, 8)
    found = bs.diagnose(model, (x, torch.ones(64, 1)), loss=lambda y, t: F.softplus(-y).mean())
    assert not {"constant-labels", "negated-loss"} & codes(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_targets_that_the_loss_never_reads_are_not_constant_labels(dtype):
    torch.manual_seed(0)
    model, x = mlp(8, 32, 8), torch.randn(64, 8)
    dummy = torch.zeros(64, dtype=dtype)
    found = bs.diagnose(model, (x, dummy), loss=lambda y, t: (y - x[: len(y)]).square().mean())
    assert "constant-labels" not in codes(found)


@pytest.mark.parametrize("shift", [0.0, -3.0, 3.0])
def test_a_policy_gradient_is_not_negated_whatever_the_sign_of_its_advantages(shift):
    torch.manual_seed(0)
    model, x, actions = mlp(8, 32, 4), torch.randn(64, 8), torch.randint(4, (64,))
    advantages = torch.randn(64) + shift

    def loss(y, t):
        taken = torch.log_softmax(y, 1).gather(1, t[:, None])[:, 0]
        return -(taken * advantages[: len(t)]).mean()

    assert "negated-loss" not in codes(bs.diagnose(model, (x, actions), loss=loss))


@pytest.mark.parametrize("weight", [None, (1.0, 2.0, 3.0, 4.0)])
def test_a_cross_entropy_of_the_wrong_sign_is_still_negated(weight):
    torch.manual_seed(0)
    model, x, labels = mlp(8, 32, 4), torch.randn(64, 8), torch.randint(4, (64,))
    weights = None if weight is None else torch.tensor(weight)
    found = bs.diagnose(
        model, (x, labels), loss=lambda y, t: -F.cross_entropy(y, t, weight=weights)
    )
    assert "negated-loss" in codes(found)


class CopiedByItself(nn.Module):
    """A `__deepcopy__` that keeps no memo."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(8, 16, 4)

    def forward(self, x):
        return self.layers(x)

    def __deepcopy__(self, memo):
        twin = CopiedByItself()
        twin.load_state_dict(self.state_dict())
        return twin


def test_a_model_that_copies_itself_keeps_its_optimizer():
    torch.manual_seed(0)
    model = CopiedByItself()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    twin, stepper = copy_training(model, optimizer)
    held = {id(p) for group in stepper.param_groups for p in group["params"]}
    assert held == {id(p) for p in twin.parameters()}
