import random

import numpy as np
import pytest
import torch
from torch import nn

from bathyscope.core import preserve_model
from bathyscope.core.preserve import preserve_once
from tests.support.model_state import assert_same, state_of
from tests.unchecked import unchecked


class Everything(nn.Module):
    """BatchNorm, dropout, a frozen and an unused parameter, a shared layer, a user's hook."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.unused = nn.Linear(2, 2)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.again = self.first
        self.register_buffer("counter", torch.zeros(()))

    def forward(self, x):
        self.counter += 1
        return self.again(self.drop(self.norm(self.frozen(self.first(x)))))


@pytest.fixture
def model():
    model = Everything()
    model.norm.eval()
    model.first.register_forward_hook(lambda *_: None)
    model.first.weight.register_hook(lambda g: g)
    model(torch.randn(8, 4)).sum().backward()
    return model


def disturb(model):
    model.train()
    model.register_forward_hook(lambda *_: None)
    model.first.weight.register_hook(lambda g: 2 * g)
    model.frozen.requires_grad_(True)
    model(torch.randn(8, 4)).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    model.first.weight.data = torch.zeros(4, 4)
    model.counter = torch.ones(())
    model.extra = nn.Parameter(torch.zeros(1))
    del model.extra
    np.random.rand()
    random.random()


def test_everything_comes_back_bit_for_bit(model):
    before = state_of(model)
    with preserve_model(model):
        assert all(p.grad is None for p in model.parameters())
        disturb(model)
    assert_same(before, state_of(model))


def test_everything_comes_back_after_an_exception(model):
    before = state_of(model)
    with pytest.raises(ZeroDivisionError), preserve_model(model):
        disturb(model)
        _ = 1 / 0
    assert_same(before, state_of(model))


def test_without_copies_all_but_the_values_comes_back(model):
    before = state_of(model)
    with preserve_model(model, copy_parameters=False):
        model.train()
        model(torch.randn(8, 4)).sum().backward()
    assert_same(before, state_of(model))


def test_a_parameter_that_was_replaced_comes_back(model):
    before = state_of(model)
    with preserve_model(model):
        model.first.weight = nn.Parameter(torch.zeros(4, 4))
    assert_same(before, state_of(model))


def test_nested_contexts(model):
    before = state_of(model)
    with preserve_model(model):
        disturb(model)
        with preserve_model(model):
            disturb(model)
    assert_same(before, state_of(model))


def test_in_a_row_of_measurements_each_finds_the_model_as_the_first_did(model):
    before = state_of(model)
    drawn, passes = [], []
    with preserve_once(model):
        for _ in range(3):
            with preserve_model(model, copy_parameters=False):
                assert all(p.grad is None for p in model.parameters())
                passes.append(
                    (float(model.counter), model.norm.training, model.frozen.weight.requires_grad)
                )
                model.train()
                model.frozen.requires_grad_(True)
                model.counter = torch.ones(())
                model(torch.randn(8, 4)).sum().backward()
                drawn.append((torch.rand(()).item(), np.random.rand()))
        with preserve_model(model):
            disturb(model)
    assert_same(before, state_of(model))
    assert drawn[0] == drawn[1] == drawn[2]
    assert passes == [(1.0, False, False)] * 3


def test_in_a_row_what_is_changed_inside_of_one_comes_back_to_that(model):
    with preserve_once(model), preserve_model(model, copy_parameters=False):
        model.eval()
        with preserve_model(model, copy_parameters=False):
            model.train()
        assert not model.drop.training
    assert model.drop.training


def test_in_a_row_hooks_of_the_row_stay(model):
    seen = []
    with preserve_once(model):
        handle = model.register_forward_hook(lambda *_: seen.append(1))
        for _ in range(2):
            with preserve_model(model, copy_parameters=False):
                model(torch.randn(8, 4))
        handle.remove()
        model(torch.randn(8, 4))
    assert seen == [1, 1]


@unchecked()
def test_python_random_numbers_go_on_as_if_nothing_had_happened():
    random.seed(0)
    expected = random.Random(0).random()
    with preserve_model(nn.Linear(1, 1)):
        random.random()
    assert random.random() == expected


class Counts(nn.Module):
    """Counts its passes, keeps the last output, and goes by both."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.passes, self.scale, self.last = 0, 1.0, None

    def forward(self, x):
        self.passes += 1
        self.scale *= 0.5
        self.last = self.scale * self.layer(x)
        return self.last


def test_what_a_pass_replaces_is_put_back():
    model = Counts()
    with preserve_model(model):
        model(torch.randn(2, 3))
        assert model.passes == 1
        del model.last
    assert (model.passes, model.scale, model.last) == (0, 1.0, None)
