import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.foresight import features
from bathyscope.foresight.goal import goal_of
from tests.support.model_state import assert_same, state_of
from tests.unchecked import unchecked


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 3)
    )


def batches(count, *, size=16):
    generator = torch.Generator().manual_seed(1)
    result = []
    for _ in range(count):
        x = torch.randn(size, 6, generator=generator)
        result.append((x, x[:, :3].argmax(1)))
    return result


def test_features_are_those_of_a_plain_loop():
    """Every feature again, from the user's own loop and the definitions in the docstring."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    seen = features(model, batches(8), optimizer=optimizer, at=(1, 8))

    labels = torch.cat([y for _, y in batches(8)])
    fractions = torch.bincount(labels, minlength=3) / len(labels)
    chance = float(fractions.max())
    constant = float(F.nll_loss(fractions.log().expand(16, 3), batches(1)[0][1]))
    weights = [p for p in model.parameters() if p.ndim == 2]
    start = model(batches(1)[0][0]).detach()
    losses, rights = [], []
    for step, (x, y) in enumerate(batches(8), 1):
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        losses.append(loss.item())
        rights.append(float((output.argmax(1) == y).float().mean()))
        old = copy.deepcopy(weights)
        rms = [float(p.grad.square().mean().sqrt()) for p in weights]
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in weights))
        optimizer.step()
        if step in seen:
            ratios = sorted(
                float((p - q).norm() / q.norm()) for p, q in zip(weights, old, strict=True)
            )
            values = seen[step]
            centered = output - output.mean(0)
            fraction = float(centered.square().sum() / output.square().sum())
            assert values["depth"] == pytest.approx(math.log10(3))
            assert values["gradient"] == pytest.approx(math.log10(norm), abs=1e-4)
            assert values["gradient_range"] == pytest.approx(
                math.log10(max(rms) / min(rms)), abs=1e-4
            )
            assert values["update"] == pytest.approx(math.log10(ratios[1]), abs=1e-4)
            assert values["update_miss"] == pytest.approx(
                abs(math.log10(ratios[1]) + 2.5), abs=1e-4
            )
            assert values["update_range"] == pytest.approx(
                math.log10(ratios[2] / ratios[1]), abs=1e-4
            )
            assert values["spread"] == pytest.approx(math.log10(fraction), abs=1e-4)
            assert values["excess"] == pytest.approx(math.log(losses[0] / constant), abs=1e-4)
    excess = [math.log(value / constant) for value in losses]
    last = seen[8]
    assert last["gone"] == pytest.approx(1 - sum(losses[-2:]) / 2 / constant, abs=1e-4)
    assert last["slope"] == pytest.approx(sum(excess[4:]) / 4 - sum(excess[:4]) / 4, abs=1e-4)
    assert last["spike"] == pytest.approx(max(excess), abs=1e-4)
    assert last["score"] == pytest.approx((sum(rights[-2:]) / 2 - chance) / (1 - chance), abs=1e-4)
    moved = model(batches(1)[0][0]).detach() - start
    moved = moved - moved.mean(0)
    wanted = F.one_hot(batches(1)[0][1], 3).float()
    wanted = wanted - wanted.mean(0)
    cosine = float((moved * wanted).sum() / moved.norm() / wanted.norm())
    assert last["alignment"] == pytest.approx(cosine, abs=1e-4)


def test_the_model_and_its_optimizer_are_left_as_they_were():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before, settings = state_of(model), copy.deepcopy(optimizer.state_dict())
    features(model, batches(4), optimizer=optimizer, at=(1, 8))
    assert_same(before, state_of(model))
    assert optimizer.state_dict() == settings


def test_what_depends_on_scale_alone_does_not_change_with_a_copy_of_the_batch():
    """Losses are means: twice the same samples in a batch show the same."""
    model = network()
    double = [(torch.cat((x, x)), torch.cat((y, y))) for x, y in batches(8)]
    once, twice = features(model, batches(8), at=(8,)), features(model, double, at=(8,))
    assert once[8] == pytest.approx(twice[8], abs=1e-3)


def test_a_network_whose_output_does_not_depend_on_its_input():
    model = network()
    with torch.no_grad():
        model[4].weight.zero_()
    values = features(model, batches(1), at=(1,))[1]
    assert values["spread"] == -12
    assert all(map(math.isfinite, values.values()))


class WithSpare(nn.Module):
    """The network beside a layer that never runs; with `cut`, no gradient reaches its first layer."""

    def __init__(self, *, cut=False):
        super().__init__()
        self.network, self.spare, self.cut = network(), nn.Linear(3, 3), cut

    def forward(self, x):
        first = self.network[:1](x)
        return self.network[1:](first.detach() if self.cut else first)


def test_a_layer_that_never_runs_says_nothing_and_one_before_a_cut_does():
    alone, beside = features(network(), batches(8)), features(WithSpare(), batches(8))
    for step, values in alone.items():
        assert values | {"depth": math.log10(4)} == beside[step]
    assert features(WithSpare(cut=True), batches(8))[1]["unreached"] == pytest.approx(1 / 3)


def test_a_loss_that_is_non_finite_ends_it():
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=1e38)
    seen = features(model, batches(8), optimizer=sgd, at=(1, 8))
    assert max(seen) < 8
    assert "alignment" not in seen[max(seen)]


@pytest.mark.parametrize("length", [1, 5])
def test_the_goal_of_labels_ignores_those_that_do_not_count(length):
    """The constant baseline's loss against a search over constants."""
    torch.manual_seed(0)
    output = torch.randn(8, 4, length)
    targets = torch.randint(4, (8, length))
    targets[0] = -100
    goal = goal_of(output, [(None, targets)], loss=F.cross_entropy, first_loss=1.0)
    logits = torch.zeros(4, requires_grad=True)
    search = torch.optim.LBFGS([logits], max_iter=200)

    def closure():
        search.zero_grad()
        value = F.cross_entropy(logits[None, :, None].expand(8, 4, length), targets)
        value.backward()
        return value

    search.step(closure)
    assert goal.kind == "labels"
    assert goal.constant_loss == pytest.approx(closure().item(), abs=1e-4)
    perfect = F.one_hot(targets.clamp_min(0), 4).movedim(-1, 1).float()
    assert goal.score(perfect, targets) == pytest.approx(1.0)


def test_the_goal_of_numbers_and_of_something_else():
    targets = torch.randn(64, 3)
    goal = goal_of(targets, [(None, targets)], loss=F.mse_loss, first_loss=9.0)
    assert goal.kind == "numbers"
    assert goal.constant_loss == pytest.approx(float(targets.var(0, correction=0).mean()), rel=1e-4)
    assert goal.score(targets.mean(0).expand(64, 3), targets) == pytest.approx(0.0, abs=1e-6)
    other = goal_of(targets, [(None, None)], loss=lambda out, _: out.sum(), first_loss=9.0)
    assert (other.kind, other.constant_loss, other.score(targets, None)) == ("other", 9.0, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "No batch was given"),
        (3, "a list or a loader"),
        ([torch.zeros(2, 6)], "loader of pairs"),
    ],
)
@unchecked()
def test_batches_that_cannot_be_used(given, said):
    with pytest.raises(UsageError, match=said):
        features(network(), given)


def test_one_output_for_two_classes_is_followed_by_its_loss():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    batch = torch.randn(16, 4), torch.arange(16) % 2

    def loss(output, targets):
        return F.binary_cross_entropy_with_logits(output[:, 0], targets.float())

    result = features(model, [batch], loss=loss, at=(1, 8))
    assert sorted(result) == [1, 8]
    assert all(math.isfinite(v) for values in result.values() for v in values.values())


@pytest.mark.parametrize("unknown", [-1, 7])
def test_labels_of_ones_own_and_losses_below_zero(unknown):
    model = nn.Linear(4, 3)
    targets = torch.arange(16) % 3
    targets[3] = unknown

    def loss(output, targets):
        known = (targets >= 0) & (targets < 3)
        return F.cross_entropy(output[known], targets[known]) - 5.0

    result = features(model, [(torch.randn(16, 4), targets)], loss=loss, at=(1, 8))
    assert all(math.isfinite(v) for values in result.values() for v in values.values())


def test_weights_whose_squares_are_beyond_float32():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    with torch.no_grad():
        model[2].weight.mul_(1e30)
    batch = torch.randn(16, 4), torch.arange(16) % 3
    result = features(model, [batch], at=(1,))
    assert all(math.isfinite(value) for value in result[1].values())


def flat_entropy(output, targets):
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


def test_classes_along_the_last_axis_have_the_goal_of_torchs_order():
    torch.manual_seed(0)
    output, targets = torch.randn(6, 5, 7), torch.randint(7, (6, 5))
    targets[:, 0] = -100
    first = float(flat_entropy(output, targets))

    last = goal_of(output, [(None, targets)], loss=flat_entropy, first_loss=first)
    middle = goal_of(output.mT, [(None, targets)], loss=F.cross_entropy, first_loss=first)

    assert (last.kind, last.axis) == ("labels", 2)
    assert (middle.kind, middle.axis) == ("labels", 1)
    assert last.constant_loss == pytest.approx(middle.constant_loss, rel=1e-6)
    assert last.chance == middle.chance
    assert last.score(output, targets) == pytest.approx(middle.score(output.mT, targets))
    torch.testing.assert_close(
        last.direction(output, targets), middle.direction(output.mT, targets).mT
    )


def test_targets_that_a_loss_shifts_are_scored_where_they_are_asked_for():
    torch.manual_seed(0)
    output, targets = torch.randn(6, 5, 7), torch.randint(7, (6, 5))

    def shifted(output, targets):
        return flat_entropy(output[:, :-1], targets[:, 1:])

    first = float(shifted(output, targets))
    inside = goal_of(output[:, :-1], [(None, targets[:, 1:])], loss=flat_entropy, first_loss=first)
    goal = goal_of(output, [(None, targets)], loss=shifted, first_loss=first)
    assert (goal.kind, goal.axis, goal.is_shifted) == ("labels", 2, True)
    assert goal.chance == inside.chance
    assert goal.constant_loss == pytest.approx(inside.constant_loss, rel=1e-6)
    assert goal.score(output, targets) == inside.score(output[:, :-1], targets[:, 1:])
    wanted = inside.direction(output[:, :-1], targets[:, 1:])
    assert torch.equal(goal.direction(output, targets)[:, :-1], wanted)
    elsewhere = goal_of(output, [(None, targets)], loss=shifted, first_loss=first + 1)
    assert elsewhere.kind == "other"
