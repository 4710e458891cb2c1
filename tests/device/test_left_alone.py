"""What calls leave as it was on a device, and what runs on a device's own threads."""

import copy
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.global_state import (
    is_measuring,
    measuring,
    preserve_random_state,
    seed_generators,
)
from bathyscope.core.preserve import preserve_model
from bathyscope.core.progress import on_progress
from bathyscope.estimators import DenseNEstRegressor
from tests.device.networks import case


def states():
    return [torch.get_rng_state(), *(torch.pretend.get_rng_state(i) for i in range(2))]


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one, other)


def with_dropout(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4)).to(device)
    return model, (torch.randn(16, 6, device=device), torch.randint(4, (16,), device=device))


@pytest.mark.parametrize("call", ["diagnose", "forecast", "hessian", "treat"])
def test_random_numbers_of_devices_are_put_back(pretend, call):
    model, batch = with_dropout("pretend:1")
    weights = copy.deepcopy(model.state_dict())
    before = states()
    if call == "diagnose":
        bs.diagnose(model, batch)
    elif call == "forecast":
        bs.forecast(model, [batch], spend=1)
    elif call == "hessian":
        bs.hessian(model, batch) @ torch.ones(92, device="pretend:1")
    else:
        bs.treat(model, bs.diagnose(model, batch), spend=300).undo()
    assert_same(before, states())
    for name, value in model.state_dict().items():
        assert torch.equal(value, weights[name])


def test_seeding_reaches_devices_and_is_undone(pretend):
    before = states()
    with preserve_random_state():
        seed_generators(3)
        first = torch.rand(3, device="pretend:1").cpu()
        seed_generators(3)
        assert torch.equal(first, torch.rand(3, device="pretend:1").cpu())
    assert_same(before, states())


def test_an_estimator_reseeds_nothing_but_its_own(pretend):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    targets = rows[:, 0] * 2
    fitted = DenseNEstRegressor(max_epochs=2, random_state=0).fit(rows, targets).predict(rows)
    before = states()
    torch.set_default_device("pretend:1")
    there = DenseNEstRegressor(max_epochs=2, random_state=0).fit(rows, targets).predict(rows)
    assert_same(before, states())
    np.testing.assert_allclose(there, fitted, rtol=1e-6)


@pytest.mark.parametrize(
    "scheme", ["he", "xavier", "orthogonal", "delta_orthogonal", "transformer"]
)
def test_a_seed_means_the_same_on_every_device(pretend, scheme):
    here, there = nn.Linear(6, 5), nn.Linear(6, 5).to("pretend:0")
    for model in (here, there):
        bs.inits.apply_(scheme, model, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(there.weight.cpu(), here.weight)


def test_a_network_is_built_under_a_default_device(pretend):
    wanted = bs.nets.build("gpt-2", width=8, vocabulary=5, context=4, seed=1)
    before = states()
    torch.set_default_device("pretend:1")
    built = bs.nets.build("gpt-2", width=8, vocabulary=5, context=4, seed=1)
    assert_same(before, states())
    for ours, theirs in zip(wanted.parameters(), built.parameters(), strict=True):
        assert theirs.device == torch.device("pretend:1")
        torch.testing.assert_close(theirs.cpu(), ours)


def test_a_backward_pass_on_a_devices_thread_knows_that_it_is_measured(pretend):
    seen = []
    x = torch.ones(2, device="pretend:1", requires_grad=True)
    for _ in range(2):
        y = x * 2
        y.register_hook(lambda g: seen.append((threading.get_ident(), is_measuring())))
        with measuring() if not seen else torch.enable_grad():
            y.sum().backward()
    assert [measured for _, measured in seen] == [True, False]
    assert seen[0][0] != threading.get_ident()


def test_a_pass_that_cuda_captures_is_not_watched(pretend, monkeypatch):
    """Nothing may be read from it: a graph is recorded, and nothing is computed."""
    given = case("mlp").to("pretend:0")
    optimizer = torch.optim.AdamW(given.model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        given.loss(given.model(given.batch[0]), given.batch[1]).backward()
        optimizer.step()

    step()
    with bs.watch(given.model, every=1) as seen:
        with monkeypatch.context() as patch:
            patch.setattr("bathyscope.core.global_state._is_initialized", lambda: True)
            patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
            with pretend.counting() as counts:
                step()
        assert counts.synchronizations == 0
        assert seen.steps == 0
        step()
    assert seen.steps == 1


def test_progress_of_the_way_back_shows(pretend):
    given, texts = case("mlp").to("pretend:0"), []
    with on_progress(texts.append):
        bs.diagnose(given.model, given.batch, loss=given.loss)
    assert any("back through block" in text for text in texts)


def test_a_hook_of_the_users_that_measures_does_not_wait_for_itself(pretend):
    """It runs on the device's thread, for which the thread that diagnoses waits."""
    given, inner = case("mlp").to("pretend:1"), case("mlp").to("pretend:1").model
    calls = []

    def measure(module, grad_input, grad_output):
        if not calls:
            calls.append(threading.get_ident())
            with preserve_model(inner):
                pass

    given.model[2].register_full_backward_hook(measure)
    done = threading.Event()

    def run():
        bs.diagnose(given.model, given.batch, loss=F.cross_entropy)
        done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(120)
    assert done.is_set()
    assert calls
