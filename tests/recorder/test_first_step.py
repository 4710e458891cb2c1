"""What is kept of a loop's first step computes the loss that the loop had, and the loop does not notice."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.batch import forward
from bathyscope.recorder.ledger import Ledger
from tests.loops.tasks import mlp


def recorded(model, loss_of, *others, scaler=None):
    """One step of a loop under a ledger: what it kept, and the loss that the loop had."""
    with Ledger(copies_first_step=True) as ledger:
        optimizer, *_ = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, *others)]
        loss = loss_of(model)
        (loss if scaler is None else scaler.scale(loss)).backward()
        optimizer.step()
    assert torch._C._len_torch_function_stack() == 0
    assert not ledger.record.notes
    return ledger.first_step, float(loss.detach())


def value_of(step):
    inputs, targets = step.batch
    return float(step.loss(forward(step.model, inputs), targets).detach())


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, *, scale=None):
        y = self.layer(x)
        return {"logits": y if scale is None else y * scale, "loss": y.square().mean()}


X, Y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])


def by_hand(model):
    centered = model(X) - model(X).mean(0).detach()
    return (centered - F.one_hot(Y, 4)).abs().pow(1.5).mean() + 0.1 * model[0].weight.square().sum()


def in_place(model):
    loss = F.cross_entropy(model(X), Y)
    loss += 0.5
    loss *= 2
    return loss


def two_views(model):
    one, two = F.normalize(model(X), dim=1), F.normalize(model(X + 0.1 * torch.ones(6, 4)), dim=1)
    return F.cross_entropy(one @ two.T, torch.arange(6))


def in_parts(model):
    hidden = model[0](X)
    return F.cross_entropy(model[2](torch.relu(hidden)), Y) + hidden.square().mean()


LOSSES = {
    "of torch": lambda model: F.cross_entropy(model(X), Y, label_smoothing=0.1),
    "a module": lambda model: nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4]))(model(X), Y),
    "by hand": by_hand,
    "in place": in_place,
    "two views": two_views,
    "in parts": in_parts,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_kept_step_has_the_loops_loss(name):
    torch.manual_seed(0)
    first, loss = recorded(mlp(4, 8, 4), LOSSES[name])
    assert first.step is not None, first.why_not
    assert value_of(first.step) == pytest.approx(loss, rel=1e-5)


def test_a_loss_of_torch_is_kept_as_such_with_its_options():
    first, _ = recorded(mlp(4, 8, 4), LOSSES["of torch"])
    assert first.step.loss.func is F.cross_entropy
    assert first.step.loss.keywords == {"label_smoothing": 0.1}
    assert torch.equal(first.step.batch[1], Y)


def test_targets_are_taken_as_they_were_before_they_were_flattened():
    tokens = torch.randint(5, (3, 7))
    model = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5))
    first, _ = recorded(
        model,
        lambda m: F.cross_entropy(m(tokens[:, :-1]).reshape(-1, 5), tokens[:, 1:].reshape(-1)),
    )
    assert torch.equal(first.step.batch[1], tokens[:, 1:])


def test_a_model_with_its_own_loss_and_named_inputs():
    first, loss = recorded(Pair(), lambda m: m(X, scale=torch.tensor(2.0))["loss"])
    assert first.step.batch[1] is None
    assert set(first.step.batch[0]) == {"x", "scale"}
    output = forward(first.step.model, first.step.batch[0])
    assert float(output["loss"].detach()) == pytest.approx(loss)


def test_a_scaled_loss_is_kept_unscaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    first, loss = recorded(mlp(4, 8, 4), lambda m: F.cross_entropy(m(X), Y), scaler=scaler)
    assert value_of(first.step) == pytest.approx(loss, rel=1e-5)


def test_only_what_gradients_reach_is_kept_of_two_networks():
    maker, critic = mlp(4, 8, 4), mlp(4, 8, 1)
    first, _ = recorded(critic, lambda m: m(maker(X).detach()).mean() - m(X).mean(), maker)
    assert [type(part).__name__ for part in first.step.model.parts] == ["Sequential"]
    assert first.step.optimizer is not None


def test_what_the_loop_overwrites_later_is_kept_as_it_was():
    x, model = X.clone(), mlp(4, 8, 4)
    before = copy.deepcopy(model.state_dict())
    first, _ = recorded(model, lambda m: F.cross_entropy(m(x), Y))
    x.zero_()
    assert torch.equal(first.step.batch[0], X)
    assert all(torch.equal(v, before[k]) for k, v in first.step.model.state_dict().items())
    held = {id(p) for g in first.step.optimizer.param_groups for p in g["params"]}
    assert held == {id(p) for p in first.step.model.parameters()}


def test_modes_of_the_users_own_stay_in_their_order():
    model = mlp(4, 8, 4)

    def loss_of(m):
        output = m(X)
        with torch.device("cpu"):  # a mode that is entered after ours and left before backward
            return F.cross_entropy(output, Y)

    with torch.device("cpu"), Ledger(copies_first_step=True) as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss_of(model).backward()
        optimizer.step()
        assert torch._C._len_torch_function_stack() == 1
    assert ledger.first_step.step is not None


def test_training_is_bit_for_bit_as_without():
    def train():
        torch.manual_seed(1)
        model = nn.Sequential(
            nn.Linear(4, 16), nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 4)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(4):
            optimizer.zero_grad()
            (F.cross_entropy(model(X + 0.1 * torch.randn(6, 4)), Y) + torch.rand(())).backward()
            optimizer.step()
        return [*model.state_dict().values(), torch.rand(3)]

    plain = train()
    with Ledger(copies_first_step=True) as ledger:
        watched = train()
    assert ledger.first_step.step is not None
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_what_cannot_be_kept_is_said():
    def rewrapped(model):
        return torch.tensor(F.cross_entropy(model(X), Y).item(), requires_grad=True)

    first, _ = recorded(mlp(4, 8, 4), rewrapped)
    assert first.step is None
    assert "does not follow from the output" in first.why_not
    first, _ = recorded(mlp(4, 8, 4), lambda m: sum(m(X).mean() for _ in range(12)))
    assert "more than 8 passes" in first.why_not
