"""Two processes that share a batch against one that has it whole."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys

import pytest
import torch
from torch import nn

from bathyscope import data
from bathyscope.core.errors import UsageError
from bathyscope.runs import load_checkpoint, read_run
from bathyscope.training import Callback, Saving, TrainingConfig, outcome_of, train

# 300 samples in batches of 37: parts of 18 and 19, and a last batch of 4
CONFIG = TrainingConfig(
    precision="float64", batch_size=37, epochs=20, max_steps=50, lr=0.05, flip=True, shift=1
)


def network(dropout=0.0):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Flatten(),
        nn.Linear(144, 10),
    )


def digits():
    result = data.load("digits", normalize=True, num_train=300, num_test=75)
    return (result.train_inputs, result.train_labels), (result.test_inputs, result.test_labels)


class SignalAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, loop, record):
        if loop.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def process(rank, size, port, folder, config, dropout, stop_at):
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    training, test = digits()
    train(
        lambda: network(dropout),
        training,
        config=config,
        folder=folder,
        test=test,
        callbacks=[SignalAt(stop_at)],
        saving=Saving(every_steps=20),
    )


def in_processes(folder, *, size=2, config=CONFIG, dropout=0.0, stop_at=None):
    run_in_processes(process, folder, config, dropout, stop_at, size=size)
    return outcome_of(folder)


def run_in_processes(target, folder, *arguments, size=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    given = (size, port, folder, *arguments)
    processes = [context.Process(target=target, args=(rank, *given)) for rank in range(size)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(900)
    assert [p.exitcode for p in processes] == [0] * size


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_give_the_losses_of_one(tmp_path, accumulate):
    training, test = digits()
    alone = train(network, training, config=CONFIG, folder=tmp_path / "alone", test=test)
    config = CONFIG.model_copy(update={"accumulate": accumulate})
    shared = in_processes(tmp_path / "shared", config=config)
    assert len(shared.curve("loss")) == 50
    for name in ("loss", "gradient_norm", "accuracy"):
        assert shared.curve(name) == pytest.approx(alone.curve(name), rel=1e-9)
    assert shared.result == pytest.approx(alone.result, rel=1e-9)
    expected = load_checkpoint(tmp_path / "alone").weights
    for name, tensor in load_checkpoint(tmp_path / "shared").weights.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-9, atol=1e-12)


def test_stopped_and_resumed_with_the_same_processes_is_uninterrupted(tmp_path):
    """With dropout: each process has a generator of its own."""
    whole = in_processes(tmp_path / "whole", dropout=0.3)
    assert in_processes(tmp_path / "run", dropout=0.3, stop_at=31).status == "stopped"
    assert in_processes(tmp_path / "run", dropout=0.3).status == "finished"
    assert read_run(tmp_path / "run")[2] == whole.history
    a, b = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "run")
    assert all(torch.equal(a.weights[k], b.weights[k]) for k in a.weights)
    torch.testing.assert_close(a.state, b.state, rtol=0, atol=0)


def test_another_number_of_processes_is_refused(tmp_path):
    in_processes(tmp_path / "run", stop_at=25)
    training, test = digits()
    with pytest.raises(UsageError, match=r"written by 2 processes and there are 1 now"):
        train(network, training, config=CONFIG, folder=tmp_path / "run", test=test)


def normalizing(rank, size, port, folder):
    """Train a network with BatchNorm in one of several processes, and write down its buffers."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    made = []

    def build():
        made.append(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, 10))
        )
        return made[0]

    train(
        build, digits()[0], config=CONFIG.model_copy(update={"max_steps": 3}), folder=folder / "run"
    )
    torch.save(dict(made[0].named_buffers()), folder / f"buffers-{rank}.pt")


def test_buffers_are_those_of_the_first_process(tmp_path):
    """Each process sees its own part of a batch, and BatchNorm its own statistics."""
    run_in_processes(normalizing, tmp_path)
    first, second = (torch.load(tmp_path / f"buffers-{rank}.pt") for rank in range(2))
    assert first["2.running_mean"].abs().sum() > 0
    for name, buffer in first.items():
        assert torch.equal(buffer, second[name]), name


@pytest.mark.slow
def test_torchrun_starts_the_command_line(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["-m", "bathyscope", "train", "resnet-8", "--epochs", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("resnet-8: finished") == 1
    assert len(list(tmp_path.glob("resnet-8-*/weights.safetensors"))) == 1
