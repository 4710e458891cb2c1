"""What every measurement keeps: the model, the optimizer and the batch come back bit for bit."""

import copy
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.measure import (
    standard,
)
from tests.core import lookalikes as like
from tests.support.measurements import MEASUREMENTS, measured
from tests.support.model_state import assert_same, state_of


class Everything(nn.Module):
    """Two inputs, BatchNorm, dropout, a frozen, an unused and a shared layer, a buffer that counts."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.shared = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True))
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("counter", torch.zeros(()))

    def forward(self, a, b):
        self.counter += 1
        x = self.first(a) + self.first(b)
        return self.frozen(self.drop(self.shared(self.shared(x))))


def images(dtype=torch.float32):
    return torch.randn(6, 3, 8, 8, dtype=dtype), torch.arange(6) % 5


def everything():
    model = Everything()
    model.first.register_forward_hook(lambda *_: None)
    model.shared[0].weight.register_hook(lambda g: g)
    return model, ((torch.randn(8, 4), torch.randn(8, 4)), torch.arange(8) % 6)


def evaluated():
    model = like.TorchvisionLike()
    model.layer1.eval()
    return model, images()


def bfloat16():
    # without strides: some CPUs stop at an illegal instruction in their backward pass in bfloat16
    return like.SharedTwice().bfloat16(), images(torch.bfloat16)


def compiled_in_part():
    model = like.TorchvisionLike()
    model.layer1[0].compile(backend="eager")
    model.layer2[0] = torch.compile(model.layer2[0], backend="eager")
    return model, images()


def named_inputs():
    return like.HuggingFaceLike(), ({"input_ids": torch.randint(11, (5, 6))}, torch.arange(5) % 4)


def loss_inside():
    inputs = {"input_ids": torch.randint(11, (5, 6)), "labels": torch.arange(5) % 4}
    return like.HuggingFaceLike(), (inputs, None)


class Encoder(nn.Sequential):
    """Two layers of attention with dropout, and a head over the mean of the tokens."""

    def __init__(self):
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        super().__init__(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self[0](x).mean(1))


MODELS = {
    "everything": everything,
    "attention": lambda: (Encoder(), (torch.randn(4, 5, 8), torch.arange(4) % 3)),
    "residual": lambda: (like.TorchvisionLike(), images()),
    "partly in eval mode": evaluated,
    "double": lambda: (like.TorchvisionLike().double(), images(torch.float64)),
    "bfloat16": bfloat16,
    "densely connected": lambda: (like.DenseNetLike(), images()),
    "shared block": lambda: (like.SharedTwice(), images()),
    "skipped blocks": lambda: (like.StochasticDepth(), images()),
    "named inputs": named_inputs,
    "loss inside": loss_inside,
    "wrapped": lambda: (nn.DataParallel(like.TorchvisionLike()), images()),
    "compiled in part": compiled_in_part,
    "compiled": lambda: (torch.compile(like.TorchvisionLike(), backend="eager"), images()),
}


# One pass and its hooks serve them all: all models for these, the rest of the grid when there is time.
EVERY_MODEL = ("standard", "deletion")
WITH_ATTENTION = ("attention", "named inputs", "loss inside")
A_FEW = ("everything", "residual", "named inputs")
GRID = [
    pytest.param(
        name,
        case,
        marks=()
        if name in EVERY_MODEL or case in A_FEW or case in name  # attention of attention
        else pytest.mark.slow,
    )
    for name in MEASUREMENTS
    for case in MODELS
]


def loss_of(output, targets):
    return F.cross_entropy(getattr(output, "logits", output), targets)


def prepared(case):
    """A model that has gradients and an optimizer that has state."""
    torch.manual_seed(0)
    model, batch = MODELS[case]()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, batch, optimizer


def assert_equal(before, after):
    """The same nested values, tensors bit for bit; printed tensors leave most entries out."""
    assert type(before) is type(after)
    if isinstance(before, torch.Tensor):
        assert before.dtype == after.dtype
        assert torch.equal(before, after)
    elif isinstance(before, dict):
        assert before.keys() == after.keys()
        for key in before:
            assert_equal(before[key], after[key])
    elif isinstance(before, (list, tuple)):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            assert_equal(one, other)
    else:
        assert before == after


def test_a_changed_entry_of_a_large_tensor_is_seen():
    before = {"state": [torch.zeros(5000)]}
    after = copy.deepcopy(before)
    after["state"][0][2500] = 1.0
    assert str(before) == str(after)
    with pytest.raises(AssertionError):
        assert_equal(before, after)


@pytest.mark.parametrize(("name", "case"), GRID)
def test_everything_is_left_as_it_was(name, case):
    model, batch, optimizer = prepared(case)
    before, steps = state_of(model), copy.deepcopy(optimizer.state_dict())
    data = copy.deepcopy(batch)
    without = name == "attention" and case not in WITH_ATTENTION
    with pytest.raises(UsageError, match="No attention") if without else nullcontext():
        measured(name, model, batch, loss_of, optimizer)
    assert_same(before, state_of(model))
    assert_equal(steps, optimizer.state_dict())
    assert_equal(data, batch)
    assert torch.overrides._get_current_function_mode() is None


@pytest.mark.parametrize("name", [n for n in MEASUREMENTS if n != "weights"])
@pytest.mark.parametrize("case", ["everything", "residual", "named inputs"])
def test_also_when_the_loss_raises_half_way(name, case):
    model, batch, optimizer = prepared(case)
    before = state_of(model)

    def broken(output, targets):
        raise ValueError("half way")

    with pytest.raises(UsageError, match="half way"):
        measured(name, model, batch, broken, optimizer)
    assert_same(before, state_of(model))
    assert torch.overrides._get_current_function_mode() is None


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_also_when_a_block_raises_half_way(name):
    model, batch, optimizer = prepared("residual")
    model.layer2[0].conv2 = nn.Conv2d(7, 16, 3)  # cannot take what it is given
    before = state_of(model)
    with pytest.raises(UsageError, match="cannot take a batch"):
        measured(name, model, batch, loss_of, optimizer)
    assert_same(before, state_of(model))


@pytest.mark.parametrize("name", [n for n in MEASUREMENTS if n not in ("updates", "deletion")])
def test_a_gradient_hook_that_raises_leaves_the_model_as_it_was(name):
    model, batch, optimizer = prepared("residual")

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("no gradient")

    before = state_of(model)
    try:
        measured(name, model, batch, lambda o, t: loss_of(Broken.apply(o), t), optimizer)
    except UsageError:
        pass
    else:
        assert name == "weights"
    assert_same(before, state_of(model))


@pytest.mark.parametrize("name", EVERY_MODEL)
@pytest.mark.parametrize("case", A_FEW)
def test_two_runs_give_the_same_numbers(name, case):
    model, batch, optimizer = prepared(case)
    first, second = (measured(name, model, batch, loss_of, optimizer) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("case", [*A_FEW, "bfloat16"])
def test_standard_gives_what_each_measurement_gives_alone(case):
    model, batch, optimizer = prepared(case)
    together = standard(model, batch, loss=loss_of, optimizer=optimizer)
    assert set(together) >= {"activations", "representations", "gradients", "weights", "updates"}
    for name, measurement in together.items():
        if name in MEASUREMENTS:
            assert measured(name, model, batch, loss_of, optimizer) == measurement, name
