"""Devices by name: on the command line, in `build`, and what is said where there is none."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import bathyscope as bs
from bathyscope.cli import app
from bathyscope.core.devices import check_device, on_device
from bathyscope.core.errors import UsageError
from bathyscope.core.memory import available_bytes
from tests.device.networks import case


def run(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "resnet-20", "--set", "width=2", "--batch-size", "8"],
        ["forecast", "nshortcut-3-2", "--budget", "60", "--spend", "2"],
    ],
)
def test_a_command_runs_on_the_device_that_is_named(pretend, words):
    with pretend.counting() as counts:
        result = run(*words, "--device", "pretend:1", "--json", "-")
    assert result.exit_code == 0, result.output
    json.loads(result.output)
    assert counts.launches > 100


def test_a_network_is_built_where_it_is_asked_for(pretend):
    here = bs.nets.build("resnet-8", width=2, seed=1)
    there = bs.nets.build("resnet-8", width=2, seed=1, device="pretend:1")
    for ours, theirs in zip(here.parameters(), there.parameters(), strict=True):
        assert theirs.device == torch.device("pretend:1")
        torch.testing.assert_close(theirs.cpu(), ours)


@pytest.mark.parametrize("name", ["gpu", "pretend:7", "meta", "cuda:3", 1.5])
def test_a_device_that_does_not_exist_is_one_sentence(pretend, name):
    with pytest.raises(UsageError) as error:
        check_device(name)
    assert "\n" not in str(error.value)
    if name != "meta":
        assert "pretend:1" in str(error.value)  # what there is


def test_model_and_batch_on_different_devices(pretend):
    given = case("mlp")
    there = on_device(given.batch, torch.device("pretend:0"))
    for call in (
        lambda: bs.diagnose(given.model, there),
        lambda: bs.forecast(given.model, [there]),
        lambda: bs.hessian(given.model, there) @ torch.ones(1),
    ):
        with pytest.raises(UsageError, match="The model is on cpu and the batch on pretend:0"):
            call()


def test_a_model_half_on_meta():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2, device="meta"))
    batch = torch.randn(8, 4), torch.randint(2, (8,))
    for call in (lambda: bs.diagnose(model, batch), lambda: bs.hessian(model, batch)):
        with pytest.raises(UsageError) as error:
            call()
        assert "meta" in str(error.value)
        assert "\n" not in str(error.value)


def test_the_allocators_reserve_counts_as_free(pretend):
    device = torch.device("pretend:0")
    before = available_bytes(device)
    held = torch.zeros(1 << 20, device=device)
    assert before - available_bytes(device) == held.nbytes
    del held  # the allocator keeps it
    assert available_bytes(device) == before
