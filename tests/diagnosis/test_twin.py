"""Six planted differences between two models, found at their block and step; equal ones are equal."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UsageError
from bathyscope.diagnosis.twin import Parting
from tests.loops.language import LanguageModel, sentences
from tests.two_processes import results
from tests.unchecked import unchecked


class Layer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)
        self.dropout, self.scale, self.wrong_backward = nn.Dropout(0.0), 1.0, False

    def forward(self, x):
        y = self.dropout(torch.tanh(self.linear(self.norm(x)))) * self.scale
        return x + (HalfBackward.apply(y) if self.wrong_backward else y)


class HalfBackward(torch.autograd.Function):
    """The identity with a wrong backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient


class Net(nn.Module):
    def __init__(self, depth=5):
        super().__init__()
        self.stem, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    model = Net()
    x = torch.randn(32, 8)
    return model, copy.deepcopy(model), (x, x[:, :4].argmax(1))


def where(found):
    return found.first.step, found.first.what, found.first.block


def test_a_wrong_scale_in_one_block(pair):
    a, b, batch = pair
    b.layers[2].scale = 1.01
    found = bs.twin(a, b, batch)
    assert where(found) == (0, "output", "layers.2")
    assert "block layers.2" in found.sentence


def test_another_epsilon(pair):
    a, b, batch = pair
    b.layers[3].norm.eps = 1e-3
    assert where(bs.twin(a, b, batch)) == (0, "output", "layers.3")


def test_dropout_in_one(pair):
    a, b, batch = pair
    b.layers[1].dropout.p = 0.1
    assert where(bs.twin(a, b, batch)) == (0, "output", "layers.1")


def test_a_wrong_backward_pass_of_a_custom_function(pair):
    a, b, batch = pair
    b.layers[2].wrong_backward = True
    # what comes out of layer 1 is the first that hears of it
    assert where(bs.twin(a, b, batch)) == (0, "gradient", "layers.1")


def test_a_wrong_backward_pass_in_compiled_code(pair):
    a, b, batch = pair
    b.layers[2].wrong_backward = True
    found = bs.twin(a, torch.compile(b, backend="eager"), batch)
    assert where(found) == (0, "parameter gradient", "layers.2")
    assert "compiled" in found.notes[0]


@pytest.mark.slow
def test_a_wrong_backward_pass_in_code_of_a_real_compiler(pair):
    a, b, batch = pair
    assert bs.twin(a, torch.compile(copy.deepcopy(a)), batch).is_same
    b.layers[2].wrong_backward = True
    assert where(bs.twin(a, torch.compile(b), batch)) == (0, "parameter gradient", "layers.2")


def test_a_tie_that_was_lost():
    torch.manual_seed(0)
    a = LanguageModel(depth=1)
    a.head.weight = a.embed.weight
    b = copy.deepcopy(a)
    b.head.weight = nn.Parameter(b.head.weight.detach().clone())
    tokens = sentences(8)

    def loss(logits, targets):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    found = bs.twin(a, b, (tokens[:, :-1], tokens[:, 1:]), loss=loss)
    assert found.first.step == 0
    assert (found.first.what, found.first.block) in {
        ("parameter gradient", "embed"),
        ("parameter gradient", "embed.weight"),
    }


def test_other_data_on_another_rank(pair):
    a, b, batch = pair
    other = torch.randn(32, 8), batch[1]
    assert where(bs.twin(a, b, batch, other_batch=other)) == (0, "input", "")


def on_two_ranks(rank, folder):
    """The first step of both ranks, with the same batch and with that of another rank's order."""
    import torch.distributed as dist

    found = {}
    for fault in (True, False):
        torch.manual_seed(0)
        model = Net()
        torch.manual_seed(rank if fault else 0)
        x = torch.randn(32, 8)
        others = [None, None]
        dist.all_gather_object(others, (model.state_dict(), x, x[:, :4].argmax(1)))
        weights, *other = others[1 - rank]
        twin = Net()
        twin.load_state_dict(weights)
        result = bs.twin(model, twin, (x, x[:, :4].argmax(1)), other_batch=tuple(other))
        found[fault] = None if result.is_same else where(result)
    return found


def test_ranks_with_other_data(tmp_path):
    for found in results(tmp_path, on_two_ranks):
        assert found == {True: (0, "input", ""), False: None}


def test_an_optimizer_that_differs_shows_at_the_second_step(pair):
    a, b, batch = pair
    made = []

    def optimizer(parameters):
        made.append(1)
        return torch.optim.SGD(parameters, lr=0.1 if len(made) == 1 else 0.2)

    assert where(bs.twin(a, b, batch, optimizer=optimizer))[:2] == (1, "weights")


def test_equal_runs_are_equal(pair):
    a, b, batch = pair
    state = copy.deepcopy(a.state_dict())
    found = bs.twin(a, b, batch, steps=3)
    assert found.is_same
    assert set(found.table["step"]) == {0, 1, 2}
    assert all(torch.equal(v, state[k]) for k, v in a.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_another_dtype_is_rounding(pair, dtype):
    a, b, batch = pair
    assert bs.twin(a, b.to(dtype), batch, steps=1, loss=wide_loss).is_same


def test_a_fault_shows_through_bfloat16(pair):
    a, b, batch = pair
    b.layers[2].scale = 1.5
    assert where(bs.twin(a, b.to(torch.bfloat16), batch, loss=wide_loss)) == (
        0,
        "output",
        "layers.2",
    )


def wide_loss(output, targets):
    return F.cross_entropy(output.float(), targets)


def test_bad_input(pair):
    a, _, batch = pair
    with unchecked(), pytest.raises(UsageError, match=r"torch\.nn\.Module"):
        bs.twin(a, "model", batch)


@pytest.mark.parametrize(("difference", "is_apart"), [(0.1, False), (0.3, True), (math.nan, True)])
def test_a_difference_beyond_rounding_or_no_number(difference, is_apart):
    assert Parting(0, "loss", "", difference, allowed=0.2).is_apart is is_apart
