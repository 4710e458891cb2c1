"""Every column that a measurement gives is a declared quantity, and is one number in one direction."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bathyscope as bs
from bathyscope.measure.quantities import QUANTITIES, quantity_of


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def networks():
    images = torch.randn(6, 3, 32, 32)
    yield bs.nets.build("resnet-8", num_classes=3), images
    yield bs.nets.build("vit-2", num_classes=3), images
    yield Recurrent(), torch.randn(6, 5, 4)


@pytest.mark.parametrize("at", range(3), ids=["convolutional", "transformer", "recurrent"])
def test_every_column_is_declared(at):
    model, x = list(networks())[at]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (x, torch.tensor([0, 1, 2, 0, 1, 2]))
    result = bs.diagnose(
        model, batch, loss=F.cross_entropy, optimizer=optimizer, probes="full", steps=1
    )
    # a kernel of another shape may have further axes
    columns = {f"{m.name}.{c}" for m in result.report().measurements for c in m.columns}
    assert columns - set(QUANTITIES) == set()
    frame = result.measurements["gradients"].to_frame()
    assert list(frame.index) == [block.label for block in result.blocks]
    assert (frame["ratio"] - frame["norm_out"] / frame["norm_in"]).abs().max() < 1e-6


def test_a_key_names_one_quantity_and_labels_are_unique():
    labels = [quantity.label for quantity in QUANTITIES.values()]
    assert sorted({label for label in labels if labels.count(label) > 1}) == []
    assert all(key.count(".") == 1 for key in QUANTITIES)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("gradients.ratio", (1 / 1.5, 1.5)),
        ("activations.dead_units", (float("-inf"), 0.3)),
        ("attention.entropy", (0.1, float("inf"))),
        ("gradients.norm_in", None),
        ("mine.own", None),
    ],
)
def test_the_good_range(key, good):
    assert quantity_of(key).good_range == (good if good is None else pytest.approx(good))
