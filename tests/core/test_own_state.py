"""Models with a state of their own: what their forward pass changes is put back, bit for bit."""

import collections
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import diagnose, forecast, watch
from bathyscope.core import UsageError, preserve_model
from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.snapshot import have_same_bits, snapshot, snapshot_tensors

BATCH = torch.linspace(-1, 1, 32 * 8).reshape(32, 8), torch.arange(32) % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        self.change(x)
        return self.last(torch.relu(self.first(x)))

    def change(self, x):
        pass


class MadeAtFirstCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.proj = None

    def forward(self, x):
        if self.proj is None:
            self.proj = nn.Linear(8, 3)
        return self.proj(self.body(x))


def test_submodules_made_at_the_first_call_are_let_go():
    model = MadeAtFirstCall()
    with pytest.raises(UsageError, match="makes 'proj' in its first pass; run one batch"):
        diagnose(model, BATCH)
    assert model.proj is None
    assert list(model._modules) == ["body"]
    model(BATCH[0])
    assert diagnose(model, BATCH).blocks[-1].name == "proj"


def test_a_model_that_makes_submodules_is_forecast_and_watched():
    model = MadeAtFirstCall()
    forecast(model, [BATCH], spend=1)
    assert model.proj is None
    with watch(model, every=1) as seen:
        for _ in range(3):
            F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    assert "proj" in {row["block"] for row in seen.rows}


class OwnGenerators(Net):
    def __init__(self):
        super().__init__()
        self.torch = torch.Generator().manual_seed(1)
        self.new, self.old = np.random.default_rng(2), np.random.RandomState(3)
        self.python = [random.Random(4)]

    def change(self, x):
        torch.rand((), generator=self.torch)
        return self.new.random() + self.old.rand() + self.python[0].random()

    def next_numbers(self):
        numbers = [torch.rand((), generator=self.torch).item(), self.new.random()]
        return [*numbers, self.old.rand(), self.python[0].random()]


def test_generators_of_the_model_itself_are_put_back():
    model = OwnGenerators()
    diagnose(model, BATCH)
    assert model.next_numbers() == OwnGenerators().next_numbers()


class OwnContainers(Net):
    def __init__(self):
        super().__init__()
        self.count, self.array = torch.zeros(3), np.zeros(3)
        self.seen, self.last_two = [], collections.deque([0, 0], maxlen=2)
        self.names, self.state = {"a"}, {"n": 0, "nested": [torch.zeros(2)]}
        self.replaced, self.pair = [1], (torch.zeros(1), "x")

    def change(self, x):
        self.count += 1
        self.array += 1
        self.seen.append(x)
        self.last_two.append(len(self.seen))
        self.names.add("b")
        self.state["n"] += 1
        self.state["nested"][0] += 1
        self.replaced = [*self.replaced, 2]
        self.pair[0].add_(1)
        self.added = x


def test_plain_tensors_and_containers_are_put_back():
    model = OwnContainers()
    objects = {name: id(value) for name, value in vars(model).items()}
    diagnose(model, BATCH)
    assert {name: id(value) for name, value in vars(model).items()} == objects
    assert (model.count.sum(), model.array.sum(), model.seen) == (0, 0, [])
    assert (list(model.last_two), model.names, model.replaced) == ([0, 0], {"a"}, [1])
    assert (model.state["n"], model.state["nested"][0].sum(), model.pair[0]) == (0, 0, 0)


class NegativeZero(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.tensor([-0.0, torch.nan, 1.0]))

    def change(self, x):
        self.zero.copy_(torch.tensor([0.0, torch.nan, 1.0]))


def test_a_buffer_of_negative_zero_keeps_its_sign():
    model = NegativeZero()
    version = model.zero._version
    with preserve_model(model):
        pass
    assert model.zero._version == version  # NaN is not a change
    diagnose(model, BATCH)
    assert torch.signbit(model.zero)[0]


class Grows(Net):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.register_buffer("cache", torch.ones(2, 8))

    def change(self, x):
        if self.how == "resize_":
            self.cache.resize_(len(self.cache) + 1, 8).zero_()
        elif self.how == "data":
            self.cache.data = torch.cat([self.cache, x[:1]])
        elif self.how == "transposed":
            self.cache.data = self.cache.data.T
        else:
            self.cache = torch.cat([self.cache, x[:1]])


@pytest.mark.parametrize("how", ["resize_", "data", "replaced", "transposed"])
def test_a_buffer_that_grows_has_its_former_size(how):
    model = Grows(how)
    buffer, address = model.cache, model.cache.data_ptr()
    diagnose(model, BATCH)
    assert model.cache is buffer
    assert torch.equal(model.cache, torch.ones(2, 8))
    assert model.cache.untyped_storage().nbytes() == 2 * 8 * 4
    assert how == "resize_" or model.cache.data_ptr() == address


def test_the_generators_of_a_loader_given_to_forecast_are_put_back():
    data = torch.utils.data.TensorDataset(*BATCH)
    generator = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, generator=generator)
    before = generator.get_state()
    forecast(Net(), loader, spend=1)
    assert torch.equal(before, generator.get_state())


def test_random_numbers_of_holders_inside_one_another():
    class Sampler:
        def __init__(self):
            self.generator = random.Random(0)

    class Loader:
        def __init__(self):
            self.batch_sampler = Sampler()

    loader = Loader()
    with preserve_random_state(loader):
        first = loader.batch_sampler.generator.random()
    assert loader.batch_sampler.generator.random() == first


def test_objects_that_hold_one_another():
    first, second = [], {}
    first.append(second)
    second["first"] = first
    restore = snapshot(first, set())
    second.clear()
    first.clear()
    restore()
    assert first[0]["first"] is first


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.bool]
)
def test_same_bits_in_every_dtype(dtype):
    x = torch.tensor([0.0, 1.0, 2.0]).to(dtype)
    assert have_same_bits(x, x.clone())
    y = x.clone()
    y[0] = 1
    assert not have_same_bits(x, y)
    assert not have_same_bits(x, x[:2])


def test_many_small_tensors_come_back_bit_for_bit_and_only_those_that_changed():
    tensors = [
        torch.randn(3),
        torch.zeros(()),
        torch.tensor([0.0, -0.0, torch.nan]),
        torch.ones(2, 2),
    ]
    tensors += [torch.arange(4), torch.tensor([True, False]), torch.ones(3, dtype=torch.float64)]
    tensors += [torch.randn(2, dtype=torch.bfloat16), torch.randn(4, 4).T, torch.empty(0)]
    before = [tensor.clone() for tensor in tensors]
    restores = snapshot_tensors(tensors)
    untouched = tensors[0]._version
    tensors[1].add_(1)
    tensors[2].abs_()  # the sign of zero alone
    tensors[4].zero_()
    tensors[5].logical_not_()
    tensors[6].data = torch.zeros(5, dtype=torch.float64)
    tensors[7].mul_(2)
    tensors[8].zero_()
    address = tensors[3].data_ptr()
    for restore in restores:
        restore()
    assert tensors[0]._version == untouched
    assert tensors[3].data_ptr() == address
    for tensor, value in zip(tensors, before, strict=True):
        assert have_same_bits(tensor, value)
