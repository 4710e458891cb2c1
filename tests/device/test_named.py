"""Devices by name: on the command line, in `build`, and what is said where there is none."""

import gc
import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import bathyscope as bs
from bathyscope.cli import app
from bathyscope.core.devices import available_bytes, check_device, on_device
from bathyscope.core.errors import UsageError
from tests.device.networks import case


def run(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "resnet-20", "--set", "width=2", "--batch-size", "8", "--json", "-"],
        ["forecast", "nshortcut-3-2", "--budget", "60", "--spend", "2", "--json", "-"],
        ["hessian", "nshortcut-3-2", "-k", "1", "--batch-size", "8", "--json", "-"],
        ["compare", "nshortcut-3-2", "nshortcut-3-2", "--steps", "2", "--out", "FOLDER"],
        ["train", "nshortcut-3-2", "--data", "digits", "--epochs", "1", "--out", "FOLDER"],
    ],
)
def test_a_command_runs_on_the_device_that_is_named(pretend, tmp_path, words):
    given = [str(tmp_path) if word == "FOLDER" else word for word in words]
    with pretend.counting() as counts:
        result = run(*given, "--device", "pretend:1")
    assert result.exit_code == 0, result.output
    if "--json" in words:
        json.loads(result.output)
    assert counts.launches > 100


def test_a_command_names_a_device_that_does_not_exist(pretend):
    with pytest.raises(UsageError, match="There is no device 'pretend:5' here"):
        run("diagnose", "resnet-8", "--device", "pretend:5")


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


def test_other_calls_on_bad_input_say_one_sentence(pretend):
    given, there = case("mlp"), tuple(t.to("pretend:0") for t in case("mlp").batch)
    optimizer = torch.optim.SGD(given.model.parameters(), 0.1)
    contender = bs.diagnosis.Contender("a", given.model, optimizer)
    half = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2, device="meta"))
    batch = torch.randn(8, 4), torch.randint(2, (8,))
    apart = "The model is on cpu and the batch on pretend:0"
    for call, message in (
        (lambda: bs.twin(given.model, given.model, there, loss=given.loss), apart),
        (lambda: bs.compare([contender], [there] * 2, loss=given.loss), apart),
        (lambda: bs.coordinate_check(lambda width: given.model, [there], widths=(1, 2)), apart),
        (lambda: bs.measure.standard(given.model, there, loss=given.loss), apart),
        (lambda: bs.diagnose(given.model, (given.batch[0], there[1])), apart),
        (lambda: bs.nets.build("resnet-8", device="pretend:9"), "no device 'pretend:9'"),
        (lambda: bs.forecast(half, [batch]), "meta"),
        (lambda: bs.twin(half, half, batch, loss=given.loss), "meta"),
        (lambda: bs.certify(half, batch), "meta"),
        (lambda: bs.measure.weights(half, batch), "meta"),
        (lambda: bs.linalg.conv_singular_values(nn.Conv1d(1, 1, 1, device="meta"), 4), "meta"),
    ):
        with pytest.raises(UsageError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_the_allocators_reserve_counts_as_free(pretend):
    device = torch.device("pretend:0")
    gc.collect()  # what earlier tests have left in cycles would go in between
    before = available_bytes(device)
    held = torch.zeros(1 << 20, device=device)
    assert before - available_bytes(device) == held.nbytes
    del held  # the allocator keeps it
    assert available_bytes(device) == before
