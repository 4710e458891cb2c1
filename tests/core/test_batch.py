"""A batch, a loss and a model of a user's, checked at the edge."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.batch import (
    check_batch,
    check_batches,
    check_parameters,
    loss_value,
    run_forward,
)
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import first_samples, map_tensors, replace_main_tensor, tensors_in
from tests.unchecked import unchecked

Pair = namedtuple("Pair", ["hidden", "rest"])


@dataclass
class Output:
    name: str
    logits: torch.Tensor


def test_tensors_are_found_in_order_wherever_they_are():
    a, b, c = (torch.full((1,), float(i)) for i in range(3))
    result = list(tensors_in({"x": (a, [b]), "y": Output("z", c), "n": None}))
    assert [t.item() for t in result] == [0.0, 1.0, 2.0]


def test_the_main_tensor_is_replaced_in_the_form_it_came_in():
    old, new = torch.zeros(1), torch.ones(1)
    whole = torch.tensor([3])  # a whole number is not a representation
    pair = replace_main_tensor(Pair((whole, old), "rest"), new)
    assert isinstance(pair, Pair)
    assert pair.hidden == (whole, new)
    assert pair.rest == "rest"
    assert replace_main_tensor(Output("z", old), new).logits is new
    assert replace_main_tensor([whole, old], new)[1] is new


def test_first_samples_leave_other_tensors_whole():
    inputs = {"x": torch.arange(4), "table": torch.zeros(3, 3), "s": torch.tensor(1)}
    result = first_samples(inputs, 2)
    assert result["x"].tolist() == [0, 1]
    assert result["table"].shape == (3, 3)
    assert result["s"].item() == 1
    assert map_tensors((torch.zeros(1), "word"), lambda t: t + 1) == (torch.ones(1), "word")


@pytest.mark.parametrize(("label", "fine"), [(0, True), (4, True), (5, False), (-1, False)])
def test_labels_lie_below_the_number_of_classes(label, fine):
    output = torch.zeros(2, 5, requires_grad=True)
    targets = torch.tensor([0, label])
    if fine:
        assert loss_value(F.cross_entropy, output, targets).ndim == 0
        return
    with pytest.raises(UsageError, match="labels must lie in 0 to 4"):
        loss_value(F.cross_entropy, output, targets)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (nn.CrossEntropyLoss, r"pass an object of it: CrossEntropyLoss\(\)"),
        ("cross_entropy", "'cross_entropy' was given; pass the function itself"),
    ],
)
@unchecked()
def test_what_is_no_loss_is_said(loss, said):
    with pytest.raises(UsageError, match=said):
        loss_value(loss, torch.zeros(2, 5, requires_grad=True), torch.tensor([0, 1]))


@unchecked()
def test_a_class_is_no_model():
    with pytest.raises(UsageError, match=r"the class Linear was given; pass an object of it"):
        check_parameters(nn.Linear)


def test_labels_to_be_ignored_are_no_labels():
    output = torch.zeros(2, 5, requires_grad=True)
    assert loss_value(F.cross_entropy, output, torch.tensor([-100, 1])).isfinite()


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (torch.zeros(2, 3), "pass \\(inputs, targets\\)"),
        ((1, 2, 3), "of 3 was given; pass several inputs"),
        (iter([1]), "pass one batch: next"),
        (([], None), "hold no tensor"),
        ((np.zeros((2, 3)), None), "ndarray; pass a tensor \\(torch.as_tensor makes one\\)"),
        ((torch.zeros(0, 3), None), "The batch is empty"),
        ((torch.tensor([[0.0, float("nan")]]), None), "Of the 2 values of the inputs 1 are NaN"),
    ],
)
def test_what_is_no_batch_is_said(batch, said):
    with pytest.raises(UsageError, match=said):
        check_batch(nn.Linear(3, 1), batch)


def test_a_mapping_is_inputs_that_carry_their_targets():
    inputs = {"x": torch.zeros(2, 3)}
    assert check_batch(nn.Linear(3, 1), inputs) == (inputs, None)


def test_some_of_the_batches_are_taken():
    batches = [(torch.zeros(1, 3), None)] * 5
    assert len(check_batches(nn.Linear(3, 1), batches, most=2)) == 2
    assert len(check_batches(nn.Linear(3, 1), batches)) == 5
    one = (torch.zeros(1, 3), torch.zeros(1))
    for wrong, said in (
        (3, "a list or a loader"),
        ([], "No batch was given"),
        (one, r"a single batch is given as \[\(inputs, targets\)\]"),
    ):
        with pytest.raises(UsageError, match=said):
            check_batches(nn.Linear(3, 1), wrong)


def test_a_model_that_cannot_take_the_batch_says_why():
    assert run_forward(nn.Linear(3, 1), (torch.zeros(2, 3),)).shape == (2, 1)
    with pytest.raises(UsageError, match=r"inputs of shape \(2, 4\)"):
        run_forward(nn.Linear(3, 1), torch.zeros(2, 4))
    with pytest.raises(UsageError, match="pass a larger batch"):
        run_forward(nn.BatchNorm1d(3), torch.zeros(1, 3))


class _OfOneArgument(nn.Module):
    """A graph network as people write it: the nodes and their edges come as one pair."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(3, 2)

    def forward(self, graph):
        nodes, edges = graph
        return self.map(edges @ nodes)


class _OfMany(_OfOneArgument):
    def forward(self, *parts):
        return super().forward(parts)


@pytest.mark.parametrize("kind", [_OfOneArgument, _OfMany])
def test_a_pair_of_inputs_goes_to_a_forward_of_one_argument_as_it_is(kind):
    model, graph = kind(), (torch.randn(5, 3), torch.eye(5))
    assert torch.equal(run_forward(model, graph), model.map(graph[0]))
