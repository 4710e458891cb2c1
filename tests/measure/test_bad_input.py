"""One clear sentence for what cannot be measured, whichever measurement is asked."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.measure import standard
from bathyscope.measure.rows import find_blocks
from tests.core import lookalikes as like
from tests.support.measurements import MEASUREMENTS, measured
from tests.unchecked import unchecked

IMAGES, LABELS = torch.randn(4, 3, 8, 8), torch.arange(4)


class NoParameters(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


# The checks are shared: these three reach them in every way there is, the others when there is time.
NAMES = [
    name
    if name in ("standard", "deletion", "weights")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in MEASUREMENTS
]
WITH_LOSS = [name for name in NAMES if name != "weights"]

BATCHES = {
    "a batch the model cannot take": ((IMAGES[:, :2], LABELS), "cannot take"),
    "an empty batch": ((IMAGES[:0], LABELS[:0]), "empty"),
    "NaN in the data": ((IMAGES * math.nan, LABELS), "NaN"),
    "no tensor": (("images", LABELS), "no tensor"),
    "another device": ((IMAGES.to("meta"), LABELS), "meta"),
}


def one_sentence(caught):
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", BATCHES)
def test_bad_batches(name, case):
    batch, message = BATCHES[case]
    model = like.TorchvisionLike()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=message) as caught:
        measured(name, model, batch, F.cross_entropy, optimizer)
    assert one_sentence(caught)


@pytest.mark.parametrize("name", WITH_LOSS)
@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (F.cross_entropy, LABELS + 3, "labels must lie in 0 to 4"),
        (lambda o, t: F.cross_entropy(o, t, reduction="none"), LABELS, "scalar"),
        (lambda o, t: 1.0, LABELS, "scalar"),
        (lambda o, t: o.undefined, LABELS, "loss could not be computed"),
    ],
)
def test_bad_losses_and_labels(name, loss, labels, message):
    model = like.TorchvisionLike()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=message) as caught:
        measured(name, model, (IMAGES, labels), loss, optimizer)
    assert one_sentence(caught)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_parameters(name):
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    with pytest.raises(UsageError, match="no parameters") as caught:
        measured(name, NoParameters(), (IMAGES, LABELS), F.cross_entropy, optimizer)
    assert one_sentence(caught)


@pytest.mark.parametrize("name", WITH_LOSS)
def test_a_batch_of_one_with_batch_norm(name):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(1, 4), torch.tensor([0])
    with pytest.raises(UsageError, match="larger batch") as caught:
        measured(name, model, batch, F.cross_entropy, optimizer)
    assert one_sentence(caught)


def test_a_batch_of_one_without_batch_norm_is_measured():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    result = standard(model, (torch.randn(1, 4), torch.tensor([0])), loss=F.cross_entropy)
    assert result["representations"]["rank_samples"] == (1, 1)
    assert result["representations"]["mean_cosine"] == (None, None)
    assert result["activations"]["dead_units"] == (None, None)


def test_integer_inputs_are_measured_and_the_first_block_has_its_gradient():
    model = like.HuggingFaceLike()
    batch = {"input_ids": torch.randint(11, (5, 6))}, torch.arange(5) % 4
    result = standard(model, batch, loss=lambda o, t: F.cross_entropy(o.logits, t))
    assert None not in result["gradients"]["ratio"]


def test_a_model_that_is_frozen_throughout_is_measured():
    model = like.TorchvisionLike().requires_grad_(False)
    result = standard(model, (IMAGES, LABELS), loss=F.cross_entropy)
    assert None not in result["gradients"]["ratio"]  # inputs are differentiated all the same
    assert result["parameter_gradients"]["norm"] == (None,) * 4


def test_unknown_blocks_are_named():
    with pytest.raises(UsageError, match=r"layer9") as caught:
        standard(
            like.TorchvisionLike(), (IMAGES, LABELS), loss=F.cross_entropy, blocks=["layer9.*"]
        )
    assert one_sentence(caught)


def test_blocks_are_looked_for_in_a_model_that_has_values_alone():
    with pytest.raises(UsageError, match="has no parameters"):
        find_blocks(NoParameters(), (IMAGES, LABELS), None)
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    with pytest.raises(UsageError, match="no values yet"):
        find_blocks(lazy, (IMAGES, LABELS), None)
    with unchecked():
        for wrong, said in ((NoParameters, "the class NoParameters"), ("resnet-8", "a str")):
            with pytest.raises(UsageError, match=said):
                find_blocks(wrong, (IMAGES, LABELS), None)
