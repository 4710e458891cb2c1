"""The pretend device is as strict as a real one, and counts right."""

import copy
import gc
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: torch.ones(3, device="pretend:0") + torch.ones(3, device="pretend:1"), "same dev"),
        (lambda: torch.ones(3, device="pretend:0") + torch.ones(3), "same device"),
        (lambda: F.conv1d(torch.ones(1, 1, 3, device="pretend"), torch.ones(1, 1, 1)), "same dev"),
        (lambda: torch.randn(3, device="pretend", generator=torch.Generator()), "generator"),
        (lambda: torch.randn(2, device="pretend:1", generator=torch.Generator("pretend:0")), "gen"),
        (lambda: torch.randperm(4, device="pretend", generator=torch.Generator()), "generator"),
        (lambda: torch.ones(3, device="pretend:2"), "invalid device ordinal"),
        (lambda: torch.ones(3, device="pretend").numpy(), "pretend"),
    ],
)
def test_what_a_real_device_refuses(pretend, wrong, reason):
    with pytest.raises((RuntimeError, TypeError), match=reason):
        wrong()


def test_what_a_real_device_takes(pretend):
    x = torch.arange(6.0, device="pretend:1").reshape(2, 3)
    assert (x * torch.tensor(2.0)).sum().item() == 30  # a number of the host's
    assert x[torch.tensor([1])].device == x.device  # indices of the host's
    norms = torch._foreach_norm([x, x.to("pretend:0")])  # a list over both
    assert [norm.device.index for norm in norms] == [1, 0]
    assert torch.linalg.svdvals(x.double()).dtype is torch.float64


def test_float64_on_request(pretend):
    x = torch.ones(3, device="pretend")
    with pretend.without_double():
        with pytest.raises(TypeError, match="float64"):
            x.double()
        with pytest.raises(NotImplementedError, match="eigh"):
            torch.linalg.eigh(torch.eye(3, device="pretend"))
    assert x.double().dtype is torch.float64


@pytest.mark.parametrize("make", ["conv", "lstm", "encoder"])
def test_gradients_are_those_of_the_cpu(pretend, make):
    torch.manual_seed(0)
    model = {
        "conv": lambda: nn.Sequential(nn.Conv1d(5, 4, 3, groups=1), nn.BatchNorm1d(4), nn.GELU()),
        "lstm": lambda: nn.LSTM(4, 3, num_layers=2, batch_first=True),
        "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    }[make]()
    x = torch.randn(2, 5, 4)
    there = copy.deepcopy(model).to("pretend:1")
    for module, given in ((model, x), (there, x.to("pretend:1"))):
        output = module(given)
        (output[0] if isinstance(output, tuple) else output).square().sum().backward()
    for ours, theirs in zip(model.parameters(), there.parameters(), strict=True):
        assert theirs.grad.device == torch.device("pretend:1")
        torch.testing.assert_close(theirs.grad.cpu(), ours.grad, rtol=1e-4, atol=1e-5)


def test_random_numbers_of_its_own(pretend):
    before = torch.get_rng_state()
    torch.pretend.manual_seed_all(3)
    first = F.dropout(torch.ones(64, device="pretend:0"))
    other = F.dropout(torch.ones(64, device="pretend:1"))
    assert torch.equal(first.cpu(), other.cpu())
    assert not torch.equal(first.cpu(), F.dropout(torch.ones(64, device="pretend:0")).cpu())
    assert torch.equal(before, torch.get_rng_state())


def test_counters(pretend):
    x = torch.ones(1000, device="pretend")
    with pretend.counting() as counts:
        y = x + 1
        view = y.view(10, 100)[3:].t()
        (view * 2).sum()
        torch._foreach_mul_([x, y], 2.0)
    assert (counts.synchronizations, counts.launches) == (0, 4)
    assert counts.peak == 4000 + 2800 + 4
    with pretend.counting() as counts:
        y.max().item()
        y.cpu()
        bool((y > 1).all())
        y[y > 1e9]
        torch.equal(x, y)
    assert counts.synchronizations == 5
    assert counts.downloaded >= 4000


def test_memory_is_freed_and_has_an_end(pretend):
    gc.collect()
    before = pretend.library.pretend_allocated(0)
    x = torch.zeros(1 << 16, device="pretend")
    assert pretend.library.pretend_allocated(0) == before + 4 * (1 << 16)
    del x
    assert pretend.library.pretend_allocated(0) == before
    with pretend.total_memory(before + 1000), pytest.raises(torch.OutOfMemoryError):
        torch.zeros(1000, device="pretend")


def test_backward_runs_on_threads_of_its_own(pretend):
    seen = []
    x = torch.ones(2, device="pretend:1", requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append(threading.get_ident()))
    y.sum().backward()
    assert seen
    assert seen[0] != threading.get_ident()
