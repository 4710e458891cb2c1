"""What a watch and a diagnosis once said wrongly, or kept silent about; each of these failed before."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from tests.loops.tasks import batches, digits, mlp


def watched(model, optimizer, *, steps, every=25, order="cbs", cast=torch.float32, between=None):
    """Train under a watch; `order` has c for clearing, b for backward and s for the step."""
    x, y, _, _ = digits()
    with bs.watch(model, every=every) as seen:
        for number, (images, labels) in enumerate(batches(steps, 32, x, y)):
            if between is not None:
                images = between(number, images)
            for part in order:
                if part == "c":
                    optimizer.zero_grad()
                elif part == "b":
                    F.cross_entropy(model(images.to(cast)).float(), labels).backward()
                else:
                    optimizer.step()
    return seen


def problems(seen):
    return [f for f in seen.findings if str(f.severity) == "problem"]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_an_optimizer_of_another_model_is_said():
    model, other = mlp(64, 32, 32, 10), mlp(64, 32, 32, 10)
    seen = watched(model, torch.optim.SGD(other.parameters(), 0.1), steps=20)
    assert [f.code for f in problems(seen)] == ["no-gradient-at-step"]
    assert "no backward pass reaches" in problems(seen)[0].title


def test_gradients_cleared_before_the_step_are_said():
    model = mlp(64, 32, 32, 10)
    seen = watched(model, torch.optim.SGD(model.parameters(), 0.1), steps=20, order="bcs")
    assert [f.code for f in problems(seen)] == ["no-gradient-at-step"]
    assert "between backward and step" in problems(seen)[0].title


def test_a_learning_rate_of_zero_throughout_is_said():
    model = mlp(64, 32, 32, 10)
    seen = watched(model, torch.optim.SGD(model.parameters(), 0.0), steps=20)
    assert [f.code for f in problems(seen)] == ["zero-learning-rate"]


@pytest.mark.parametrize("change", ["scaled", "permuted"])
def test_a_write_that_keeps_the_norm_is_an_event(change):
    model = mlp(64, 32, 32, 10)

    @torch.no_grad()
    def write(number, images):
        if number == 30 and change == "scaled":
            model[2].weight.mul_(1.002)
        elif number == 30:
            model[2].weight.copy_(model[2].weight.flip(0))
        return images

    seen = watched(model, torch.optim.SGD(model.parameters(), 0.1), steps=40, between=write)
    assert [(e.code, e.step, e.block) for e in seen.events] == [("weights-changed", 30, "2")]


def test_a_write_that_is_undone_or_a_habit_is_no_event():
    model = mlp(64, 32, 32, 10)

    @torch.no_grad()
    def write(number, images):
        if number == 30:  # an average that is swapped in and out again
            before = model[2].weight.clone()
            model[2].weight.zero_()
            model[2].weight.copy_(before)
        model[4].weight.mul_(0.9999)  # a decay of one's own at every step
        return images

    seen = watched(model, torch.optim.SGD(model.parameters(), 0.1), steps=40, between=write)
    assert seen.events == ()


def test_half_precision_adam_divides_by_zero():
    model = mlp(64, 32, 32, 10).half()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x, y, _, _ = digits()
    found = bs.diagnose(
        model, (x[:32].half(), y[:32]), loss=lambda a, b: F.cross_entropy(a.float(), b),
        optimizer=optimizer,
    ).findings  # fmt: skip
    assert found[0].code == "non-finite"
    assert found[0].evidence["where"] == "update"
    assert found[0].cause == "optimizer"
    seen = watched(model, optimizer, steps=3, cast=torch.float16)
    assert [(e.code, e.step, e.began) for e in seen.events] == [("non-finite", 0, "update")]
    assert "eps" in seen.events[0].advice


def test_float32_adam_divides_by_its_epsilon():
    model = mlp(64, 32, 32, 10)
    x, y, _, _ = digits()
    found = bs.diagnose(
        model, (x[:32], y[:32]), loss=F.cross_entropy,
        optimizer=torch.optim.Adam(model.parameters(), 1e-3),
    ).findings  # fmt: skip
    assert found == ()


def test_inputs_that_grow_slowly_are_where_it_began():
    model = mlp(64, 32, 32, 10)
    grown = [1.0]

    def grow(number, images):
        grown[0] *= 1.055
        return images * grown[0] * (1 if number < 150 else 1.3)

    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    seen = watched(model, optimizer, steps=200, between=grow)
    assert seen.events
    assert {e.began for e in seen.events} <= {"input", "0", "2", "4"}
    assert any("input's scale" in line for line in seen.events[-1].before)
    assert [f.code for f in problems(seen)] == ["inputs-drift"]


class Branches(nn.Module):
    """A narrow branch beside a wide one."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(64, 32), nn.Linear(12, 32)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(torch.relu(torch.cat([self.wide(x), self.narrow(x[:, :12])], 1)))


def test_a_narrow_branch_is_judged_by_what_it_reads():
    x, y = torch.randn(128, 64), torch.randint(10, (128,))
    codes = [f.code for f in bs.diagnose(Branches(), (x, y), loss=F.cross_entropy).findings]
    assert "singular-representation" not in codes


@pytest.mark.parametrize(("head", "lr"), [(1e-4, 3e-3), (0.0, 1e-2)])
def test_a_fresh_head_does_not_run_away(head, lr):
    model = mlp(64, 8, 8, 100) if head == 0 else mlp(64, 32, 32, 10)
    nn.init.normal_(model[-1].weight, std=head)
    nn.init.zeros_(model[-1].bias)
    seen = watched(model, torch.optim.Adam(model.parameters(), lr), steps=100, every=10)
    assert seen.events == ()


@pytest.mark.parametrize(("scale", "epsilon"), [(1e-9, 1e-8), (1.0, 10.0)])
def test_epsilon_is_named_before_the_budget(scale, epsilon):
    model = mlp(64, 64, 64, 10)
    x, y, _, _ = digits()
    found = bs.diagnose(
        model, (x[:64], y[:64]), loss=lambda a, b: scale * F.cross_entropy(a, b), budget=100,
        optimizer=torch.optim.Adam(model.parameters(), 1e-3, eps=epsilon),
    )  # fmt: skip
    assert [root.code for root in found.roots] == ["swallowed-by-epsilon"]


def test_rounding_is_named_before_the_budget():
    model = mlp(64, 64, 64, 10).bfloat16()
    x, y, _, _ = digits()
    found = bs.diagnose(
        model, (x[:64].bfloat16(), y[:64]), loss=lambda a, b: F.cross_entropy(a.float(), b),
        optimizer=torch.optim.Adam(model.parameters(), 1e-4), budget=100,
    )  # fmt: skip
    assert [root.code for root in found.roots] == ["rounded-updates"]
