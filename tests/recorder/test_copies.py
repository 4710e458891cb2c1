"""What people do with a model while it is watched: copy, save, script and compile it."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import get_gradient_edge

from bathyscope.recorder import watch
from tests.recorder.trainings import ResidualNet
from tests.support.plain_loop import data, ordinary

pytestmark = pytest.mark.filterwarnings("error:bathyscope")


def training(model=None):
    torch.manual_seed(0)
    model = ResidualNet(depth=2) if model is None else model
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, saved], ids=["deepcopy", "torch.save"])
def test_a_copy_of_a_watched_model_is_a_plain_model(twin_of):
    model, optimizer = training()
    with watch(model, every=1) as seen:
        ordinary(model, optimizer, steps=2)
        twin = twin_of(model)
        ordinary(*training(twin), steps=3)
        assert seen.steps == 2
    assert seen.steps == 2
    assert saved(twin).state_dict().keys() == model.state_dict().keys()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in twin.modules())


def test_a_backward_pass_from_an_edge_of_the_graph():
    model, optimizer = training()
    x, y = data()
    with watch(model, every=1) as seen:
        value = F.cross_entropy(model(x), y)
        torch.autograd.backward([get_gradient_edge(value)], [torch.ones(())])
        optimizer.step()
    assert seen.steps == 1


def test_a_watched_model_can_be_scripted_and_traced():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    x, _ = data(count=2)
    with watch(model, every=1) as seen:
        for compiled in (torch.jit.script(model), torch.jit.trace(model, x)):
            torch.testing.assert_close(compiled(x), model(x))
        ordinary(*training(model), steps=2)
    assert len(seen.rows) >= 4


def test_a_model_that_is_compiled_in_place_is_watched():
    model, optimizer = training()
    model.compile(fullgraph=True, backend="eager")
    inside = model._compiled_call_impl
    with watch(model, every=2) as seen:
        ordinary(model, optimizer, steps=4)
    assert seen.steps == 4
    assert {row["step"] for row in seen.rows} == {0, 2}
    assert model._compiled_call_impl is inside


def test_a_model_that_is_compiled_in_place_meanwhile_is_watched_on():
    model, optimizer = training()
    with watch(model, every=2) as seen:
        ordinary(model, optimizer, steps=2)
        model.compile(fullgraph=True, backend="eager")
        ordinary(model, optimizer, steps=4)
    assert seen.steps >= 5  # the first step of the compiled model is not seen


def compiled_model(model, optimizer):
    ordinary(torch.compile(model, fullgraph=True, backend="eager"), optimizer)


def compiled_step(model, optimizer):
    @torch.compile(backend="eager")
    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step(*data())


@pytest.mark.parametrize("loop", [compiled_model, compiled_step])
@pytest.mark.filterwarnings("default:bathyscope")
def test_what_runs_inside_of_compiled_code_is_said(loop):
    model, optimizer = training()
    with pytest.warns(UserWarning, match="recorded nothing: the model ran inside"), watch(model):
        loop(model, optimizer)
