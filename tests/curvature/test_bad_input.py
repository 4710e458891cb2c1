"""Every wrong argument is one sentence, without the checks of types, as users have it."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.curvature import gauss_newton, hessian
from tests.unchecked import unchecked


def cases():
    """Every wrong call by a name."""
    batch = (torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2]))
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
    dead = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    nn.init.constant_(dead[0].bias, -100.0)
    H = hessian(model, batch)
    zero = hessian(dead, (batch[0], torch.zeros(6, 2)), loss=F.mse_loss)
    lazy = nn.LazyBatchNorm1d(affine=False)
    complex_ = nn.Linear(3, 3, dtype=torch.complex64)
    return {
        "percentile below": lambda: H.condition_number(percentile=-0.5),
        "percentile above": lambda: H.condition_number(percentile=2),
        "percentile a word": lambda: H.condition_number(percentile="a"),
        "definition": lambda: H.condition_number(definition="foo"),
        "definition, estimated": lambda: H.condition_number(definition="foo", exact=False),
        "tolerance": lambda: H.condition_number(tolerance=-1),
        "tolerance of the index": lambda: H.negative_index(tolerance=float("nan")),
        "resolution": lambda: H.condition_number(exact=False, resolution=0.5),
        "resolution of the index": lambda: H.negative_index(exact=False, resolution=0),
        "zero, estimated": lambda: zero.condition_number(exact=False),
        "zero, exact": lambda: zero.condition_number(tolerance=0.0),
        "ends": lambda: H.extremes(1, ends="x"),
        "tolerance of extremes": lambda: H.extremes(1, tolerance=-1),
        "k a word": lambda: H.extremes("a"),
        "k a fraction": lambda: H.extremes(2.0),
        "k too large": lambda: H.extremes(100),
        "max_products": lambda: H.extremes(1, max_products=2.5),
        "probes": lambda: H.density(probes=1.5),
        "probes of the trace": lambda: H.trace(probes="a"),
        "a shorter vector": lambda: H @ torch.ones(5),
        "a longer block": lambda: H @ torch.ones(40, 2),
        "three dimensions": lambda: H @ torch.ones(31, 2, 2),
        "whole numbers": lambda: H @ torch.ones(31, 2, dtype=torch.long),
        "a list": lambda: H @ ([1.0] * 31),
        "a name": lambda: hessian("resnet", batch),
        "a function": lambda: gauss_newton(lambda x: x, batch),
        "parameters themselves": lambda: hessian(model, batch, parameters=list(model.parameters())),
        "no names": lambda: hessian(model, batch, parameters=[]),
        "lazy": lambda: hessian(nn.LazyLinear(3), batch),
        "lazy buffers": lambda: hessian(nn.Sequential(model, lazy), batch),
        "complex": lambda: hessian(complex_, (torch.ones(2, 3, dtype=torch.complex64), batch[1])),
    }


def answer(case):
    try:
        return "answered", str(case())
    except Exception as error:
        kind = UsageError if isinstance(error, UsageError) else type(error)
        return kind.__name__, str(error)


# what each message has to name
EXPECTED = {
    "percentile below": "percentile .* at least 0 and at most 1, but -0.5",
    "percentile above": "percentile .* but 2 was given",
    "percentile a word": "percentile .* but 'a'",
    "definition": "percentile, smallest, tolerance, but 'foo'",
    "definition, estimated": "percentile, smallest, tolerance, but 'foo'",
    "tolerance": "tolerance .* but -1",
    "tolerance of the index": "tolerance .* but nan",
    "resolution": "resolution is a number of at least 1",
    "resolution of the index": "resolution is a number above 0 and at most 1",
    "zero, estimated": "no condition number",
    "zero, exact": "no condition number",
    "ends": "both, largest, smallest, but 'x'",
    "tolerance of extremes": "tolerance .* but -1",
    "k a word": "k is a whole number .* but 'a'",
    "k a fraction": "k is a whole number .* but 2.0",
    "k too large": "choose k from 1 to 31",
    "max_products": "max_products is a whole number",
    "probes": "probes is a whole number of at least 2, but 1.5",
    "probes of the trace": "probes is a whole number of at least 2, but 'a'",
    "a shorter vector": r"length 31 .* but \(5,\) was given",
    "a longer block": r"length 31 .* but \(40, 2\) was given",
    "three dimensions": r"but \(31, 2, 2\) was given",
    "whole numbers": "floating-point",
    "a list": "but list was given",
    "a name": "torch.nn.Module, but a str",
    "a function": "torch.nn.Module, but a function",
    "parameters themselves": "parameters takes names, but a Parameter was given",
    "no names": "parameters is empty",
    "lazy": "weight of the model has no values yet",
    "lazy buffers": "1.running_mean of the model has no values yet",
    "complex": "weight is complex",
}


@pytest.fixture(scope="module")
def said():
    with unchecked():
        return {name: answer(case) for name, case in cases().items()}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_one_sentence(said, name):
    kind, text = said[name]
    assert kind == ("Unresolved" if name.startswith("zero") else "UsageError"), text
    assert re.search(EXPECTED[name], text), text


def test_all_are_expected(said):
    assert said.keys() == EXPECTED.keys()


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    from bathyscope.curvature import dense_matrix

    monkeypatch.setattr(dense_matrix, "available_bytes", lambda device: 1000)
    dense_matrix.check_room_for_matrices(2, 10, torch.ones(1))  # 800 bytes
    with pytest.raises(UsageError, match="take fewer runs"):
        dense_matrix.check_room_for_matrices(3, 10, torch.ones(1))
