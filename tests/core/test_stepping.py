"""Steps on a copy: the hooks of a training come along, and count nothing of the original's."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from bathyscope import forecast
from bathyscope.core.stepping import copy_training, train_over, train_steps
from bathyscope.remedies.settings import clip_before_each_step_, warm_up_
from tests.support.small_trainings import batches, network


def plain_loop(model, optimizer, count):
    losses = []
    for x, y in batches(count):
        optimizer.zero_grad()
        value = F.cross_entropy(model(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def ahead_and_own(model, optimizer, count=5):
    """Losses of a copy, and then those of the training itself."""
    twin, stepper = copy_training(model, optimizer)
    ahead = train_over(twin, stepper, batches(count), loss=F.cross_entropy)
    return ahead, plain_loop(model, optimizer, count)


def sgd(model, lr=0.5):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def test_clipping_by_a_hook_of_the_optimizer_is_kept():
    model = network()
    optimizer = sgd(model, lr=30.0)
    clip_before_each_step_(optimizer, 0.003)
    ahead, own = ahead_and_own(model, optimizer)
    assert ahead == own
    free = network()
    assert ahead != ahead_and_own(free, sgd(free, lr=30.0))[0]


def test_warm_up_is_kept_and_counts_only_its_own_steps():
    model = network()
    optimizer = sgd(model)
    warm_up_(optimizer, 4)
    ahead, own = ahead_and_own(model, optimizer)
    assert ahead == own  # the copy's steps have not moved the original's warm-up


class Counter:
    def __init__(self, optimizer):
        self.steps = 0
        self.optimizer = optimizer
        optimizer.register_step_post_hook(self.after)

    def after(self, optimizer, args, kwargs):
        assert optimizer is self.optimizer  # a copy's counter holds the copy's optimizer
        self.steps += 1
        for group in optimizer.param_groups:
            group["lr"] *= 0.5


def test_a_bound_method_is_bound_to_a_copy():
    model = network()
    optimizer = sgd(model)
    counter = Counter(optimizer)
    twin, stepper = copy_training(model, optimizer)
    ahead = train_over(twin, stepper, batches(3), loss=F.cross_entropy)
    assert counter.steps == 0
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert ahead == plain_loop(model, optimizer, 3)


def test_hooks_on_gradients_of_parameters_are_kept():
    model = network()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
    ahead, own = ahead_and_own(model, sgd(model, lr=10.0))
    assert ahead == own


def test_a_shared_variable_of_two_hooks_is_shared_by_their_copies():
    model = network()
    optimizer = sgd(model)
    count = 0

    def before(optimizer, args, kwargs):
        nonlocal count
        count += 1

    def after(optimizer, args, kwargs):
        optimizer.param_groups[0]["lr"] = 0.5 / count

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)
    twin, stepper = copy_training(model, optimizer)
    ahead = train_over(twin, stepper, batches(4), loss=F.cross_entropy)
    assert count == 0
    assert ahead == plain_loop(model, optimizer, 4)


class Locked:
    def __deepcopy__(self, memo):
        raise TypeError("locked")

    def __call__(self, optimizer, args, kwargs):
        pass


def test_a_hook_that_cannot_be_copied_is_named(recwarn):
    model = network()
    optimizer = sgd(model)
    optimizer.register_step_pre_hook(Locked())
    copy_training(model, optimizer)
    assert "the hook Locked cannot be copied (locked)" in str(recwarn.pop(UserWarning).message)


_calls = 0


def count_globally(optimizer, args, kwargs):
    global _calls
    _calls += 1


def test_a_hook_that_writes_to_a_global_name_is_left_out(recwarn):
    model = network()
    optimizer = sgd(model)
    optimizer.register_step_pre_hook(count_globally)
    train_over(*copy_training(model, optimizer), batches(2), loss=F.cross_entropy)
    assert _calls == 0
    assert "writes to a global name" in str(recwarn.pop(UserWarning).message)


def test_a_scheduler_is_not_stepped_by_the_copy():
    model = network()
    optimizer = sgd(model)
    scheduler = LambdaLR(optimizer, lambda step: 0.5**step)
    twin, stepper = copy_training(model, optimizer)
    train_over(twin, stepper, batches(3), loss=F.cross_entropy)
    assert scheduler.last_epoch == 0
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_step_is_taken_once_and_its_output_let_go():
    twin, stepper = copy_training(network(), None)
    steps = []
    for step in train_steps(twin, stepper, batches(3), loss=F.cross_entropy):
        assert step.output is not None
        step.take()
        weights = twin[0].weight.detach().clone()
        step.take()
        assert torch.equal(weights, twin[0].weight)
        steps.append(step)
    assert [s.number for s in steps] == [1, 2, 3]
    assert all(s.output is None for s in steps)


def test_a_clipped_training_is_not_forecast_to_diverge():
    torch.manual_seed(0)
    x = torch.randn(256, 20)
    y = x[:, :5].argmax(1)
    pairs = [(x[i : i + 32], y[i : i + 32]) for i in range(0, 256, 32)]

    def seen(clipped):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
        optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
        if clipped:
            clip_before_each_step_(optimizer, 0.003)
        return forecast(model, pairs, optimizer=optimizer, budget=300)

    assert seen(clipped=False).kind == "diverging"
    assert seen(clipped=True).verdict != "fails"
