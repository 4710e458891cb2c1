"""A run that is interrupted and resumed ends bit for bit where the uninterrupted one ends."""

import multiprocessing
import os
import random
import signal

import pytest
import torch
from torch import nn

from bathyscope import data
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.files import DiskFull
from bathyscope.runs import load_checkpoint, read_run, run_state
from bathyscope.training import Callback, Saving, TrainingConfig, train

CONFIG = TrainingConfig(
    epochs=4, batch_size=32, flip=True, shift=1, lr=0.05, patience=9, schedule="step"
)
SAVING = Saving(every_steps=3)


@pytest.fixture(scope="module")
def digits():
    result = data.load("digits", normalize=True, num_train=200, num_test=50)
    return (result.train_inputs, result.train_labels), (result.test_inputs, result.test_labels)


def network(width=8):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(64 * width, 10),
    )


def trained(folder, digits, *, config=CONFIG, build=network, saving=SAVING, **options):
    return train(
        build, digits[0], config=config, folder=folder, test=digits[1], saving=saving, **options
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert trained(folder, digits).status == "finished"
    return folder


def assert_same_run(a, b):
    """Weights, optimizer, generators and every counter, metrics byte for byte."""
    first, second = load_checkpoint(a), load_checkpoint(b)
    assert first.weights.keys() == second.weights.keys()
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name]), name
    torch.testing.assert_close(first.state, second.state, rtol=0, atol=0)
    assert (a / "metrics.jsonl").read_bytes() == (b / "metrics.jsonl").read_bytes()
    assert (a / "weights.safetensors").read_bytes() == (b / "weights.safetensors").read_bytes()
    assert read_run(a)[1].result == read_run(b)[1].result


class Crash(Callback):
    """Fail at a step, as a power cut would."""

    def __init__(self, step):
        self.step = step

    def on_step(self, loop, record):
        if loop.step == self.step:
            raise ConnectionError("power cut")


# 7 steps per epoch: within an epoch, on its last step, on the first step of the next, before any save
@pytest.mark.parametrize("steps", [(1,), (7,), (8,), (10, 11, 12), (5, 14, 26), (28,)])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_interrupted_and_resumed_is_uninterrupted(tmp_path, digits, steps, optimizer):
    config = CONFIG.model_copy(update={"optimizer": optimizer, "lr": 0.01})
    trained(tmp_path / "whole", digits, config=config)
    for step in steps:
        with pytest.raises(ConnectionError):
            trained(tmp_path / "run", digits, config=config, callbacks=[Crash(step)])
        assert run_state(tmp_path / "run") == "interrupted"
        torch.manual_seed(step)  # nothing may hang on the generator's state at the resume
    first = load_checkpoint(tmp_path / "run")
    assert (first is None) == (max(steps) < 3)
    assert trained(tmp_path / "run", digits, config=config).status == "finished"
    # the crashing callback leaves an entry in the state of the interrupted run only
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_killed_at_random_moments_and_resumed(tmp_path, digits, uninterrupted):
    """SIGKILL, not an exception: nothing of the process survives."""
    moments = random.Random(0)
    kills, context = 0, multiprocessing.get_context("fork")
    while run_state(tmp_path / "run") != "finished":
        process = context.Process(target=trained, args=(tmp_path / "run", digits))
        process.start()
        # soon, so that a quick machine is caught; later and later, so that a slow one gets on
        process.join(moments.uniform(0.01, 0.06) * (1 + kills / 3))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        assert kills < 100
    assert kills >= 2
    assert_same_run(uninterrupted, tmp_path / "run")


def test_a_result_is_not_computed_again(digits, uninterrupted):
    def never():
        raise AssertionError("the run has a result")

    before = (uninterrupted / "manifest.json").read_bytes()
    assert trained(uninterrupted, digits, build=never).status == "finished"
    assert (uninterrupted / "manifest.json").read_bytes() == before


def test_a_truncated_checkpoint_falls_back_and_says_so(tmp_path, digits, uninterrupted):
    with pytest.raises(ConnectionError):
        trained(tmp_path / "run", digits, callbacks=[Crash(14)])
    newest = tmp_path / "run" / "checkpoints" / "step-000000012" / "state.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    trained(tmp_path / "run", digits)
    assert "step-000000012 was passed over" in read_run(tmp_path / "run")[1].notes[0]
    assert_same_run(uninterrupted, tmp_path / "run")


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path, digits):
    with pytest.raises(ConnectionError):
        trained(tmp_path / "run", digits, callbacks=[Crash(4)])
    with pytest.raises(UsageError, match=r"another architecture: 0.bias is \(8,\).*and \(9,\)"):
        trained(tmp_path / "run", digits, build=lambda: network(9))


def test_a_begun_run_may_be_refused_or_restarted(tmp_path, digits, uninterrupted):
    with pytest.raises(ConnectionError):
        trained(tmp_path / "run", digits, callbacks=[Crash(4)])
    with pytest.raises(UsageError, match="--resume"):
        trained(tmp_path / "run", digits, begun="refuse")
    trained(tmp_path / "run", digits, begun="restart")
    assert read_run(tmp_path / "run")[1].starts == 1
    assert_same_run(uninterrupted, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_run_saved(tmp_path, digits, uninterrupted, number):
    class Signal(Callback):
        def on_step(self, loop, record):
            if loop.step == 10:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    outcome = trained(tmp_path / "run", digits, saving=Saving(), callbacks=[Signal()])
    assert outcome.status == "stopped"
    assert outcome.ending == f"stopped at step 10 by {number.name}"
    assert signal.getsignal(number) is before
    trained(tmp_path / "run", digits)
    assert_same_run(uninterrupted, tmp_path / "run")


def test_a_full_disk_stops_the_run_with_its_last_checkpoint(
    tmp_path, digits, uninterrupted, monkeypatch
):
    from bathyscope.runs import checkpoints

    real = checkpoints.write_durably

    def filling(path, contents):
        if len(list((tmp_path / "run" / "checkpoints").glob("step-*"))) == 2:
            raise OSError(28, "No space left on device")
        real(path, contents)

    monkeypatch.setattr(checkpoints, "write_durably", filling)
    with pytest.raises(DiskFull, match="free some space and resume"):
        trained(tmp_path / "run", digits)
    assert run_state(tmp_path / "run") == "stopped"
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "run").step == 6
    trained(tmp_path / "run", digits)
    assert_same_run(uninterrupted, tmp_path / "run")


def test_a_divergence_is_a_result_on_disk(tmp_path, digits, monkeypatch):
    config = CONFIG.model_copy(update={"lr": 1e30})
    outcome = trained(tmp_path / "run", digits, config=config)
    assert outcome.status == "diverged"
    _, manifest, metrics = read_run(tmp_path / "run")
    assert manifest.ending.startswith("diverged at step ")
    assert metrics[-1]["kind"] == "divergence"
    monkeypatch.setattr("bathyscope.training.runner.Loop", None)  # it is not run again
    assert trained(tmp_path / "run", digits, config=config).ending == manifest.ending


def test_the_state_of_a_callback_is_taken_up(tmp_path, digits):
    class Counting(Crash):
        seen = 0

        def on_step(self, loop, record):
            self.seen += 1
            super().on_step(loop, record)

        def state_dict(self):
            return {"seen": self.seen}

        def load_state_dict(self, state):
            self.seen = state["seen"]

    with pytest.raises(ConnectionError):
        trained(tmp_path / "run", digits, callbacks=[Counting(13)])
    counting = Counting(None)
    trained(tmp_path / "run", digits, callbacks=[counting])
    assert counting.seen == 28


def test_every_checkpoint_damaged_is_an_error(tmp_path, digits):
    with pytest.raises(ConnectionError):
        trained(tmp_path / "run", digits, callbacks=[Crash(4)])
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.pt"):
        path.write_bytes(b"")
    with pytest.raises(BathyscopeError, match="Restart the run"):
        trained(tmp_path / "run", digits)
