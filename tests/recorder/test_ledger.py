"""The ledger writes down what a loop did, and leaves it as it was."""

import copy
import os
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.optimizer import _global_optimizer_pre_hooks

from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings
from tests.loops.tasks import mlp


def steps(model, optimizer, num, *, each=lambda: None, size=8):
    for _ in range(num):
        optimizer.zero_grad()
        x = torch.randn(size, 6)
        F.cross_entropy(model(x), torch.randint(3, (size,))).backward()
        each()
        optimizer.step()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def test_a_plain_step_is_one_row():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(model, optimizer, 3)
    first = ledger.record.rows[0]
    assert (first.lr, first.micro_batches, first.num_with_gradient) == (0.1, 1, 4)
    assert first.was_cleared
    assert first.num_moved == 4
    assert 1e-4 < first.update_ratio < 1
    assert {p.name for p in ledger.record.parameters} == {
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
    }
    use = ledger.record.optimizers[0]
    if "BATHYSCOPE_TYPECHECK" not in os.environ:  # whose wrappers stand between
        assert use.created_at.startswith("test_ledger.py:")
        assert use.stepped_at.startswith("test_ledger.py:")
        assert use.stepped_at != use.backward_at


def entry_points():
    return [
        torch.autograd.backward,
        torch.optim.Optimizer.__init__,
        torch.optim.Optimizer.zero_grad,
        nn.Module.zero_grad,
        nn.Module.eval,
        nn.Module.load_state_dict,
        clip_grad._clip_grads_with_norm_,
        nn.utils.clip_grad_value_,
        torch.amp.GradScaler.step,
        torch.optim.lr_scheduler.StepLR.__init__,
        torch.optim.lr_scheduler.LRScheduler.step,
        torch.utils.data.DataLoader.__iter__,
    ]


def test_entry_points_are_put_back():
    before = entry_points()
    model = mlp(6, 8, 3)
    hooks = dict(_global_optimizer_pre_hooks)
    with Ledger(), Ledger() as inner:
        assert entry_points() != before
        inner.stop()
        assert entry_points() != before
        steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
        assert "_compiled_call_impl" in vars(model)
    assert entry_points() == before
    assert dict(_global_optimizer_pre_hooks) == hooks
    assert "_compiled_call_impl" not in vars(model)


def test_entry_points_are_put_back_after_an_exception():
    before = entry_points()
    with pytest.raises(ZeroDivisionError), Ledger():
        raise ZeroDivisionError
    assert entry_points() == before


def test_training_is_bit_for_bit_as_without():
    def trained(watched):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))
        ledger = Ledger()
        if watched:
            ledger.start()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        clip = lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # noqa: E731
        steps(model, optimizer, 30, each=clip)
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 6))
        ledger.stop()
        return [p.detach() for p in model.parameters()], torch.rand(1)

    (plain, end), (watched, watched_end) = trained(False), trained(True)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert torch.equal(end, watched_end)


def test_a_model_can_be_copied_and_pickled_meanwhile():
    model = mlp(6, 8, 3)
    with Ledger():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(model, optimizer, 2)
        twin = copy.deepcopy(model)
        loaded = pickle.loads(pickle.dumps(model))
    for other in (twin, loaded):
        assert "_compiled_call_impl" not in vars(other)
        assert torch.equal(other[0].weight, model[0].weight)


def test_a_failure_inside_does_not_reach_the_loop(monkeypatch):
    model = mlp(6, 8, 3)
    before = entry_points()
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monkeypatch.setattr(ledger.steps, "after", lambda optimizer: 1 / 0)
        steps(model, optimizer, 3)
        assert entry_points() == before
    assert "ZeroDivisionError" in ledger.record.notes[0] or "division" in ledger.record.notes[0]


def test_gradients_that_are_not_cleared():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(5):
            model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
    assert [row.was_cleared for row in ledger.record.rows] == [True, False, False, False, False]


@pytest.mark.parametrize("clear", ["optimizer", "model", "none", "zeros"])
def test_ways_to_clear_gradients(clear):
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            if clear == "optimizer":
                optimizer.zero_grad(set_to_none=False)
            elif clear == "model":
                model.zero_grad()
            for p in model.parameters():
                if clear == "none":
                    p.grad = None
                elif clear == "zeros" and p.grad is not None:
                    p.grad.zero_()
            model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
    assert ledger.record.optimizers[0].not_cleared == 0


def test_clipping_and_its_factor():
    model = mlp(6, 8, 3)
    norms = []
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(
            model,
            optimizer,
            3,
            each=lambda: norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.01))),
        )
    (use,) = ledger.record.clips
    assert (use.kind, use.calls, use.active, use.before_backward) == ("norm", 3, 3, 0)
    assert use.factors == pytest.approx([0.01 / n for n in norms], rel=1e-3)
    assert ledger.record.rows[2].clip_factor == pytest.approx(use.factors[2])


def test_micro_batches_and_their_weight():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for divide in (1, 4):
            optimizer.zero_grad()
            for _ in range(4):
                loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))
                (loss / divide).backward()
            optimizer.step()
    use = ledger.record.optimizers[0]
    assert use.micro_batches == {4: 2}
    assert use.mean_weights == pytest.approx([4.0, 1.0])


def test_writes_outside_of_a_step_are_seen_also_through_data():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(model, optimizer, 3)
        for p in model.parameters():
            p.data.mul_(0.5)  # leaves the version counter as it was
        steps(model, optimizer, 2)
    assert [bool(row.num_written) for row in ledger.record.rows] == [False] * 3 + [True, False]
    assert max(p.largest_write for p in ledger.record.parameters) == pytest.approx(0.5)


def test_a_write_that_is_undone_is_none():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            steps(model, optimizer, 2)
            kept = copy.deepcopy(model.state_dict())
            model.load_state_dict({k: torch.zeros_like(v) for k, v in kept.items()})
            model.load_state_dict(kept)
    assert not any(row.num_written for row in ledger.record.rows)


def test_steps_of_the_schedule_per_step_of_the_optimizer():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def twice():
            schedule.step()
            schedule.step()

        steps(model, optimizer, 4, each=twice)
    (use,) = ledger.record.schedules
    assert use.kind == "ExponentialLR"
    assert use.per_update == {2: 4}
    assert ledger.record.rows[1].lr == pytest.approx(0.9**4)


def test_loss_scale_and_a_skipped_step():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for i in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 6)).square().mean() * (float("inf") if i == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert ledger.record.rows[0].loss_scale == 8.0
    assert ledger.record.optimizers[0].skipped == 1
    assert ledger.record.optimizers[0].steps == 2


def test_lbfgs_clears_inside_of_its_closure():
    model = nn.Linear(6, 3)
    x, y = torch.randn(16, 6), torch.randint(3, (16,))
    with Ledger() as ledger:
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for _ in range(4):
            optimizer.step(closure)
    use = ledger.record.optimizers[0]
    assert use.has_closure
    assert (use.not_cleared, use.without_gradient) == (0, 0)


def test_memory_is_bounded():
    model = nn.Linear(2, 1)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        for _ in range(3500):
            optimizer.zero_grad()
            model(torch.randn(2, 2)).sum().backward()
            optimizer.step()
    record = ledger.record
    assert record.steps == 3500
    assert len(record.rows) <= 1500
    assert record.data.distinct <= 20_000 + 32


def test_an_optimizer_of_its_own_at_each_step_is_bounded():
    model = nn.Linear(2, 1)
    with Ledger() as ledger:
        for _ in range(100):
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
            optimizer.zero_grad()
            model(torch.randn(2, 2)).sum().backward()
            optimizer.step()
    assert ledger.record.optimizers_made == 100
    assert len(ledger.record.optimizers) == 64
    assert ledger.record.optimizers[5].replaces == 4


def test_it_stops_by_itself():
    model = mlp(6, 8, 3)
    before = entry_points()
    with Ledger(most_steps=3) as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps(model, optimizer, 10)
        assert entry_points() == before
    assert ledger.record.steps == 3


def test_a_watch_has_the_findings_of_the_loop_also_without_blocks():
    from bathyscope.recorder import watch

    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = entry_points()
    with watch(model) as seen:
        for _ in range(8):
            F.cross_entropy(model(torch.randn(4, 6)), torch.randint(3, (4,))).backward()
            optimizer.step()
        assert [f.code for f in seen.findings] == ["gradients-not-cleared"]
    assert [f.code for f in seen.findings] == ["gradients-not-cleared"]
    assert entry_points() == before


class Wrapping(torch.optim.Optimizer):
    """An optimizer around another one, as accelerate makes for a Trainer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)
    defaults = property(lambda self: self.optimizer.defaults)

    def step(self, closure=None):
        self.optimizer.step()


def test_the_schedule_of_an_optimizer_that_wraps_another_is_of_the_one_that_steps():
    model = mlp(6, 8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapping = Wrapping(optimizer)
        schedule = torch.optim.lr_scheduler.LambdaLR(wrapping, lambda step: 0.99**step)
        for _ in range(12):
            steps(model, optimizer, 1)
            schedule.step()
    (use,) = ledger.record.schedules
    assert ledger.record.optimizers[use.optimizer].steps == 12
    assert "schedule-of-another-optimizer" not in {f.code for f in loop_findings(ledger.record)}


def test_an_embedding_of_which_few_rows_are_asked_has_gradients():
    table, head = nn.Embedding(50_000, 8), nn.Linear(8, 3)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            tokens = torch.randint(100, 120, (8, 4))  # none of the entries that are read
            F.cross_entropy(head(table(tokens).mean(1)), torch.randint(3, (8,))).backward()
            optimizer.step()
    (use,) = ledger.record.optimizers
    assert use.looks >= 2
    assert use.zero_looks == use.without_gradient == 0
    assert "no-gradient-at-step" not in {f.code for f in loop_findings(ledger.record)}


@pytest.mark.parametrize("after", [False, True])
def test_a_loss_of_half_a_square_is_not_said_to_be_divided_twice(after):
    model = mlp(6, 8, 1)
    with Ledger() as ledger:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            for _ in range(2):
                x = torch.randn(8, 6)
                loss = F.mse_loss(model(x), x[:, :1]) / 2
                (loss if after else 0.5 * loss).backward()
            for parameter in model.parameters() if after else ():
                parameter.grad /= 2
            optimizer.step()
    (found,) = (f for f in loop_findings(ledger.record) if f.code == "accumulation-divided-twice")
    assert str(found.severity) == ("warning" if after else "note")
    assert ("unless the loss is to have a weight of 1/2" in found.title) is not after
