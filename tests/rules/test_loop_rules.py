"""Each rule of a loop on a loop with its fault; `tests/loops` has whole programs, and healthy ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Severity
from bathyscope.recorder.ledger import Ledger
from bathyscope.recorder.loop_findings import loop_findings, not_checked
from bathyscope.rules import all_rules
from tests.loops.tasks import mlp


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def sample(size=8):
    return torch.randn(size, 6), torch.randint(3, (size,))


class Loop:
    """A plain training whose parts can be put in another order or be given another way."""

    def __init__(self, *, lr=0.1, kind=torch.optim.SGD, model=None, **options):
        self.model = model or mlp(6, 8, 3)
        self.optimizer = kind(self.model.parameters(), lr=lr, **options)

    def backward(self):
        x, y = sample()
        F.cross_entropy(self.model(x), y).backward()

    def steps(self, num=12, *, before=lambda: None, between=lambda: None, after=lambda: None):
        for _ in range(num):
            self.optimizer.zero_grad()
            before()
            self.backward()
            between()
            self.optimizer.step()
            after()


def find(loop):
    """Codes and severities of what is found while a function runs."""
    with Ledger() as ledger:
        loop()
    assert not ledger.record.notes
    return {f.code: f for f in loop_findings(ledger.record)}


def test_gradients_cleared_between_backward_and_step():
    def loop():
        one = Loop()
        one.steps(between=one.optimizer.zero_grad)

    finding = find(loop)["no-gradient-at-step"]
    assert finding.severity is Severity.PROBLEM
    assert "between backward and step" in finding.title


def test_an_optimizer_of_another_model():
    def loop():
        one = Loop()
        one.model = mlp(6, 8, 3)
        one.steps()

    assert "no backward pass reaches" in find(loop)["no-gradient-at-step"].title


def test_clipping_before_unscaling():
    def loop(unscale):
        one = Loop()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(8):
            one.optimizer.zero_grad()
            x, y = sample()
            scaler.scale(F.cross_entropy(one.model(x), y)).backward()
            if unscale:
                scaler.unscale_(one.optimizer)
            nn.utils.clip_grad_norm_(one.model.parameters(), 1.0)
            scaler.step(one.optimizer)
            scaler.update()

    assert "clip-before-unscale" in find(lambda: loop(False))
    assert not find(lambda: loop(True))


def test_clipping_to_little():
    def loop(limit):
        one = Loop()
        one.steps(between=lambda: nn.utils.clip_grad_norm_(one.model.parameters(), limit))

    assert find(lambda: loop(1e-5))["clipped-to-little"].severity is Severity.WARNING
    assert not find(lambda: loop(0.3))


def test_two_losses_with_a_backward_pass_each_are_not_accumulation():
    def loop():
        one = Loop()
        for _ in range(8):
            one.optimizer.zero_grad()
            x, y = sample()
            output = one.model(x)
            for loss in (F.cross_entropy(output, y), output.square().mean()):
                loss.backward(retain_graph=True)
            one.optimizer.step()

    assert not find(loop)


def test_schedule_stepped_for_each_micro_batch():
    def loop():
        one = Loop()
        schedule = lr_scheduler.CosineAnnealingLR(one.optimizer, T_max=200)
        for step in range(32):
            x, y = sample()
            (F.cross_entropy(one.model(x), y) / 4).backward()
            if step % 4 == 3:
                one.optimizer.step()
                one.optimizer.zero_grad()
            schedule.step()

    finding = find(loop)["schedule-pace"]
    assert finding.evidence["steps_per_update"] == 4
    assert "is called 4 times for each" in finding.title


def test_a_schedule_of_epochs_that_is_stepped_per_batch():
    def loop():
        one = Loop()
        schedule = lr_scheduler.StepLR(one.optimizer, step_size=5, gamma=0.1)
        one.steps(60, after=schedule.step)

    assert find(loop)["learning-rate-gone"].severity is Severity.PROBLEM


def test_a_learning_rate_that_falls_behind_the_loss_is_no_fault():
    def loop():
        model, (x, y) = mlp(6, 8, 3), sample()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        schedule = lr_scheduler.StepLR(optimizer, step_size=20, gamma=1e-3)
        for _ in range(60):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()

    assert "learning-rate-gone" not in find(loop)


def test_a_warm_up_from_zero_is_no_fault():
    def loop():
        one = Loop()
        schedule = lr_scheduler.LambdaLR(one.optimizer, lambda step: min(1.0, step / 20))
        one.steps(30, after=schedule.step)

    assert not find(loop)


def test_a_cosine_beyond_its_end():
    def loop():
        one = Loop()
        schedule = lr_scheduler.CosineAnnealingLR(one.optimizer, T_max=10)
        one.steps(40, after=schedule.step)

    assert "schedule-overrun" in find(loop)


@pytest.mark.parametrize("every", [1, 4])
def test_an_optimizer_that_is_made_again(every):
    def loop():
        model = mlp(6, 8, 3)
        for step in range(20):
            if step % every == 0:
                optimizer = torch.optim.Adam(model.parameters())
            optimizer.zero_grad()
            x, y = sample()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    assert find(loop)["optimizer-made-again"].severity is Severity.PROBLEM


def test_a_schedule_that_is_made_again():
    def loop():
        one = Loop()
        one.steps(12, after=lambda: lr_scheduler.StepLR(one.optimizer, 5).step())

    assert "schedule-made-again" in find(loop)


def loader_of(num, **options):
    return DataLoader(TensorDataset(*sample(num)), batch_size=8, **options)


def test_an_iterator_that_begins_again_for_each_batch():
    def loop():
        one, loader = Loop(), loader_of(400)
        for _ in range(30):
            x, y = next(iter(loader))
            one.optimizer.zero_grad()
            F.cross_entropy(one.model(x), y).backward()
            one.optimizer.step()

    finding = find(loop)["few-distinct-samples"]
    assert finding.severity is Severity.PROBLEM
    assert "begins the loader again" in finding.title


@pytest.mark.parametrize("shuffle", [True, False])
def test_epochs_of_a_small_data_set_are_no_fault(shuffle):
    def loop():
        one, loader = Loop(), loader_of(40, shuffle=shuffle)
        for _ in range(10):
            for x, y in loader:
                one.optimizer.zero_grad()
                F.cross_entropy(one.model(x), y).backward()
                one.optimizer.step()

    assert not find(loop)


def test_full_batch_training_is_only_noted():
    def loop():
        one, (x, y) = Loop(), sample(20)
        for _ in range(30):
            one.optimizer.zero_grad()
            F.cross_entropy(one.model(x), y).backward()
            one.optimizer.step()

    findings = find(loop)
    assert {f.severity for f in findings.values()} <= {Severity.NOTE}
    assert "repeated-batch" in findings


@pytest.mark.parametrize("factor", [1.2, 1 / 1.2])
def test_inputs_that_grow_or_shrink(factor):
    def loop():
        model, (x, y) = mlp(6, 8, 3), sample()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        for _ in range(60):
            x *= factor
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    assert "inputs-drift" in find(loop)


def test_parameters_that_no_optimizer_holds():
    def loop():
        one = Loop()
        one.optimizer = torch.optim.SGD(one.model[0].parameters(), lr=0.1)
        for _ in range(10):
            one.model.zero_grad()
            one.backward()
            one.optimizer.step()

    finding = find(loop)["not-in-optimizer"]
    assert finding.severity is Severity.WARNING
    assert finding.evidence["parameters"] == "2.weight, 2.bias"


@pytest.mark.parametrize("classes", [3, 100])
def test_a_head_that_is_replaced_after_the_optimizer_was_made(classes):
    def loop():
        one = Loop(model=mlp(6, 8, classes))
        one.model[2] = nn.Linear(8, 3)
        one.steps()

    findings = find(loop)
    assert "unreached-parameters" not in findings  # the old head, which has the name of the new one
    finding = findings["not-in-optimizer"]
    assert finding.severity is Severity.PROBLEM
    assert finding.evidence["optimizer_made_at"].startswith("test_loop_rules.py:")
    assert "replaced" in finding.why


def test_statistics_that_cannot_move():
    def loop():
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=0.0), nn.Linear(8, 3))
        Loop(model=model).steps()

    assert find(loop)["frozen-statistics"].blocks == ("1",)


def test_statistics_need_not_move_in_eval_mode():
    def loop():
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=0.0), nn.Linear(8, 3))
        Loop(model=model.eval()).steps()

    assert "frozen-statistics" not in find(loop)


def test_a_compiled_model_that_is_not_called():
    def loop():
        one = Loop()
        compiled = torch.compile(one.model, backend="eager")
        one.steps()
        assert compiled is not None

    assert find(loop)["wrapper-bypassed"].severity is Severity.WARNING


def test_a_compiled_model_that_is_called_beside_its_inner_one():
    def loop():
        one = Loop()
        compiled = torch.compile(one.model, backend="eager")
        one.steps(before=lambda: compiled(sample()[0]))

    assert "wrapper-bypassed" not in find(loop)


def test_gradients_below_epsilon():
    def loop(eps):
        one = Loop(kind=torch.optim.Adam, lr=1e-3, eps=eps)
        one.steps()

    assert "swallowed-by-epsilon" in find(lambda: loop(10.0))
    assert not find(lambda: loop(1e-8))


def test_a_projection_after_each_step_is_only_noted():
    def loop():
        one = Loop()

        def clamp():
            for p in one.model.parameters():
                p.data.clamp_(-0.05, 0.05)

        one.steps(after=clamp)

    assert find(loop)["weights-written"].severity is Severity.NOTE


def test_eval_mode_from_the_first_step_is_a_warning():
    def loop():
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
        Loop(model=model).steps()

    assert find(loop)["eval-mode"].severity is Severity.WARNING


def test_classes_are_read_where_the_model_computes_its_loss():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(6, 8, 3)

        def forward(self, x, labels):
            logits = self.net(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    model = WithLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    asked = torch.zeros(3)
    with Ledger() as ledger:
        for step in range(4):
            x, y = sample()
            asked += y.bincount(minlength=3) * (step > 0)  # who is trained shows in the first step
            optimizer.zero_grad()
            model(x, y)["loss"].backward()
            optimizer.step()
    counts = ledger.record.data.label_counts
    assert [counts[i] for i in range(3)] == asked.tolist()


def test_what_was_not_checked_is_said():
    assert "nothing was trained" in not_checked(LoopRecord())[0]
    assert "of your own" in not_checked(LoopRecord(backward_passes=3))[0]


def test_rules_of_loops_say_what_to_change():
    rules = [rule for rule in all_rules().values() if rule.find_in_loop is not None]
    assert len(rules) >= 25
    assert all(rule.advice for rule in rules)
