"""The line that cuts the graph is named, and a line that cuts nothing is not."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import diagnose
from bathyscope.measure.dependence.graph_cuts import graph_cuts


class Net(nn.Module):
    """Layers in a row; `between` is called after the first half of them."""

    def __init__(self, between):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))
        self.between = between

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x + layer(x).tanh()
            if i == 2:
                x = self.between(x)
        return x


def detached(x):
    return x.detach()


def through_data(x):
    return x.data


def without_grad(x):
    with torch.no_grad():
        return 2 * x


def twice(x):
    return x.detach().sin().detach()


def aside(x):
    scale = x.detach().std()  # a statistic that needs no gradient
    return x / scale


def line_of(function):
    lines, first = inspect.getsourcelines(function)
    return f"test_graph_cuts.py:{first + len(lines) - 1}"


def unreached(model, x):
    model(x).sum().backward()
    names = [name for name, p in model.named_parameters() if p.grad is None]
    model.zero_grad()
    return names


@pytest.mark.parametrize(
    ("between", "call"),
    [
        (detached, "detach()"),
        (through_data, ".data"),
        (without_grad, "no_grad()"),
        (twice, "detach()"),
    ],
)
def test_the_line_that_cuts_is_named(between, call):
    model, x = Net(between), torch.randn(8, 6)
    names = unreached(model, x)
    assert names == [n for i in range(3) for n in (f"layers.{i}.weight", f"layers.{i}.bias")]
    assert graph_cuts(model, (x, None), unreached=names) == (f"{line_of(between)} ({call})",)


def test_lines_that_cut_nothing_off_are_not_named():
    model, x = Net(lambda x: aside(detached(aside(x)))), torch.randn(8, 6)
    [line] = graph_cuts(model, (x, None), unreached=unreached(model, x))
    assert line.startswith(line_of(detached))


def test_a_layer_that_is_never_called_has_no_line():
    model, x = Net(aside), torch.randn(8, 6)
    model.spare = nn.Linear(2, 2)
    assert unreached(model, x) == ["spare.weight", "spare.bias"]
    assert graph_cuts(model, (x, None), unreached=["spare.weight"]) == ()


def test_a_buffer_that_is_written_without_grad_stays_as_it_was():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x):
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
            return x.detach() - self.mean

    model, x = Net(Average()), torch.randn(8, 6)
    names = unreached(model, x)
    model.between.mean.zero_()
    [line] = graph_cuts(model, (x, None), unreached=names)
    assert line.endswith("(detach())")
    assert not model.between.mean.any()
    assert not model.between.mean.requires_grad


def test_the_finding_says_where():
    model = Net(detached)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(16, 6), torch.arange(16) % 6
    root = diagnose(model, batch, optimizer=optimizer, loss=F.cross_entropy).roots[0]
    assert root.code == "cut-gradient"
    assert root.evidence["cut_at"] == f"{line_of(detached)} (detach())"
    assert line_of(detached) in root.remedy
