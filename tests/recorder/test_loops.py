"""Loops as people write them: the training is bit for bit the same, and steps are counted rightly."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from bathyscope.core.errors import UsageError
from bathyscope.diagnosis import diagnose
from bathyscope.recorder import read_events, watch
from bathyscope.recorder.log import EVENTS, STEPS
from bathyscope.runs import read_metrics
from tests.recorder.trainings import ConvNet, ResidualNet, plain
from tests.support.plain_loop import data, ordinary
from tests.two_processes import results


def weights_after(loop, model_of=ResidualNet, **options):
    torch.manual_seed(0)
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if not options:
        loop(model, optimizer)
        return model.state_dict(), None
    with watch(model, **options) as seen:
        loop(model, optimizer)
    return model.state_dict(), seen


def same(loop, model_of=ResidualNet, **options):
    alone, _ = weights_after(loop, model_of)
    watched, seen = weights_after(loop, model_of, every=2, **options)
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    return seen


def test_a_plain_loop_with_batch_norm_and_its_losses(tmp_path):
    seen = same(ordinary, ConvNet, log=tmp_path)
    torch.manual_seed(0)
    model = ConvNet()
    x, y = data()
    first = F.cross_entropy(model(x), y).item()
    steps = read_metrics(tmp_path / STEPS)
    assert [row["step"] for row in steps] == list(range(6))
    assert steps[0]["loss"] == pytest.approx(first, rel=1e-6)
    assert steps[0]["rate"] == 0.05
    assert seen.steps == 6


def test_accumulated_passes_are_one_step(tmp_path):
    def accumulating(model, optimizer):
        x, y = data()
        for _ in range(5):
            optimizer.zero_grad()
            for part in range(4):
                (F.cross_entropy(model(x[part::4]), y[part::4]) / 4).backward()
            optimizer.step()

    seen = same(accumulating, log=tmp_path)
    assert seen.steps == 5
    assert sorted(set(seen.table.step)) == [0, 2, 4]
    assert [row["step"] for row in read_metrics(tmp_path / STEPS)] == list(range(5))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    class Checkpointed(ResidualNet):
        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return self.head(x)

    seen = same(ordinary, Checkpointed)
    assert seen.steps == 6
    assert set(seen.table.block) >= {"blocks.0", "blocks.5"}


def test_autocast_and_a_gradient_scaler_tell_the_loss_unscaled(tmp_path):
    def mixed(model, optimizer):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        x, y = data()
        for _ in range(6):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    same(mixed, log=tmp_path)
    losses = [row["loss"] for row in read_metrics(tmp_path / STEPS)]
    assert len(losses) == 6
    assert max(losses) < 5.0


def test_two_models_and_two_optimizers_each_count_their_own_steps():
    torch.manual_seed(0)
    maker, judge = plain(), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    rates = {
        "maker": torch.optim.Adam(maker.parameters()),
        "judge": torch.optim.Adam(judge.parameters()),
    }
    noise, real = torch.randn(16, 16), torch.randn(16, 4)
    with watch(maker, every=1) as made, watch(judge, every=1) as judged:
        for _ in range(3):
            for _ in range(2):
                rates["judge"].zero_grad()
                verdicts = judge(real).mean() - judge(maker(noise).detach()).mean()
                verdicts.backward()
                rates["judge"].step()
            rates["maker"].zero_grad()
            (-judge(maker(noise)).mean()).backward()
            rates["maker"].step()
    assert (made.steps, judged.steps) == (3, 6)
    assert not made.events
    assert not judged.events


def test_frozen_trunks_and_adapters_are_watched_where_they_train():
    torch.manual_seed(0)
    model = ResidualNet()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    with watch(model, every=1) as seen:
        ordinary(model, optimizer)
    assert seen.recording.groups.labels == ("stem", "head")
    assert not seen.events


def test_a_compiled_model_is_sampled_by_a_pass_of_its_own():
    torch.manual_seed(0)
    model = ResidualNet(depth=2)
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(compiled, every=2) as seen:
        ordinary(compiled, optimizer)
    assert seen.steps == 6
    assert set(seen.table.block) == {"blocks.0", "blocks.1"}


def together(rank, folder):
    """Trains in one of two processes, alone and watched; the events of the run that was lost."""

    def train(steps, lost, **options):
        torch.manual_seed(0)
        model = DistributedDataParallel(ResidualNet())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        generator = torch.Generator().manual_seed(rank)  # each process has its own data
        seen = watch(model, every=5, **options) if options else None
        if seen is not None:
            seen.__enter__()
        for step in range(steps):
            x = torch.randn(16, 16, generator=generator)
            if step == lost and rank == 1:
                x[3] = torch.nan
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
            optimizer.step()
        if seen is not None:
            seen.remove()
        return model.module.state_dict(), seen

    alone, _ = train(12, None)
    watched, seen = train(12, None, log=folder / "quiet")
    assert all(torch.equal(alone[name], watched[name]) for name in alone), "not bit for bit"
    assert (seen.steps, seen.events) == (12, ())
    _, seen = train(24, 20, log=folder / "lost")
    return [(e.code, e.step, e.began) for e in seen.events]


def test_two_processes_that_train_together(tmp_path):
    first, second = results(tmp_path, together)
    assert first[0][:2] == ("non-finite", 20)  # the other one's gradient came with the mean
    assert second[0] == ("non-finite", 20, "input")
    # the first process alone writes: each step once
    assert [row["step"] for row in read_metrics(tmp_path / "quiet" / STEPS)] == list(range(12))


class Recurrent(nn.Module):
    """One time step, called by the loop again and again with the state that it gave."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(4, 12), nn.Linear(12, 4)

    def forward(self, x, state=None):
        hidden, memory = self.cell(x, state)
        return self.head(hidden), (hidden, memory)


class Sequences(nn.Module):
    """A recurrent layer over whole stretches of a sequence."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(4, 12, num_layers=2, batch_first=True), nn.Linear(12, 4)

    def forward(self, x, state=None):
        hidden, state = self.layer(x, state)
        return self.head(hidden[:, -1]), state


@pytest.mark.parametrize("network", [Recurrent, Sequences])
def test_recurrent_loops_with_truncated_backpropagation(network):
    def loop(model, optimizer):
        x, y = data()
        x = x.view(64, 4, 4)
        for _ in range(3):
            state = None
            for half in (x[:, :2], x[:, 2:]):  # the state continues, the gradient does not
                optimizer.zero_grad()
                if state is not None:
                    state = tuple(part.detach() for part in state)
                if network is Sequences:
                    output, state = model(half, state)
                    loss = F.cross_entropy(output, y)
                else:
                    loss = torch.zeros(())
                    for at in range(2):
                        output, state = model(half[:, at], state)
                        loss = loss + F.cross_entropy(output, y)
                loss.backward()
                optimizer.step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = same(loop, network)
    assert seen.steps == 6
    assert not seen.events
    assert "head" in set(seen.table.block)
    assert len(seen.recording.history.losses) == 6
    assert torch.isfinite(torch.tensor(seen.recording.history.losses)).all()


def test_a_diagnosis_inside_a_watched_loop_is_no_step():
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(model, every=1) as seen:
        ordinary(model, optimizer, steps=2)
        diagnose(model, data(), optimizer=optimizer)
        ordinary(model, optimizer, steps=2)
    assert seen.steps == 4
    assert not seen.events


def test_the_users_hand_is_called_and_may_end_the_loop(tmp_path):
    class Enough(Exception):
        pass

    def stop(event):
        raise Enough(event.code)

    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with pytest.raises(Enough, match="non-finite"), watch(model, log=tmp_path, on_event=stop):
        ordinary(model, optimizer, steps=3)
        model.blocks[3].two.weight.data.fill_(torch.nan)
        ordinary(model, optimizer, steps=3)
    (event,) = read_events(tmp_path)
    assert (event.code, event.step, event.began) == ("non-finite", 3, "blocks.3")
    assert torch.autograd.backward.__module__ == "torch.autograd"  # put back


def test_two_watches_on_one_model_see_the_same():
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(model, every=1) as one, watch(model, every=1) as two:
        ordinary(model, optimizer)
    assert one.table.equals(two.table)


def test_a_watch_cannot_be_entered_twice():
    seen = watch(ResidualNet())
    with seen, pytest.raises(UsageError, match="entered already"):
        seen.__enter__()


def test_a_damaged_log_tells_what_can_be_read(tmp_path):
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with watch(model, log=tmp_path):
        ordinary(model, optimizer, steps=2)
        model.blocks[1].two.weight.data.fill_(torch.nan)
        ordinary(model, optimizer, steps=2)
    path = tmp_path / EVENTS
    path.write_bytes(path.read_bytes() + b'{"code": "loss-spike", "st')
    assert [e.began for e in read_events(tmp_path)] == ["blocks.1"]
    with pytest.raises(UsageError, match="holds no log"):
        read_events(tmp_path / "elsewhere")


def test_a_full_disk_ends_the_watch_and_not_the_loop(tmp_path, monkeypatch):
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watch(model, every=1, log=tmp_path) as seen:
            ordinary(model, optimizer, steps=1)

            def full(self, *, sync=False):
                raise OSError(28, "No space left on device")

            monkeypatch.setattr("bathyscope.recorder.log.Log.flush", full)
            ordinary(model, optimizer, steps=4)
    assert sum("bathyscope.watch stopped" in str(w.message) for w in caught) == 1
    assert seen.steps >= 1


def test_an_update_that_runs_its_own_passes_is_one_step():
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data()

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with watch(model, every=1) as seen:
        for _ in range(4):
            optimizer.step(closure)
    assert seen.steps == 4
    assert torch.isfinite(torch.tensor(seen.recording.history.losses)).all()
    assert (seen.recording.history.total_gradients > 0).all()


def test_the_page_shows_events_and_curves(tmp_path):
    torch.manual_seed(0)
    model = ResidualNet()
    seen = watch(model)
    with pytest.raises(UsageError, match="Nothing was recorded"):
        seen.report(tmp_path / "early.html")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with seen:
        ordinary(model, optimizer, steps=3)
        model.blocks[2].two.weight.data.fill_(torch.nan)
        ordinary(model, optimizer, steps=2)
    page = seen.report(tmp_path / "watch.html").read_text()
    assert "Step 3: a value became NaN or Inf; it began at block blocks.2." in page
    assert page.count("<svg") >= 2
    assert "blocks.2" in page
    with pytest.raises(UsageError, match="html file"):
        seen.report(tmp_path / "watch.png")
