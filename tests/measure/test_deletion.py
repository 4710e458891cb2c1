import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure import deletion
from tests.measure.by_hand import CASES, main


@pytest.mark.parametrize("case", ["residual_convolutions", "perceptron", "transformer"])
def test_agrees_with_the_network_put_together_without_the_block(case):
    pieces = CASES[case]()
    result = deletion(pieces.model, pieces.batch, loss=pieces.loss)

    def loss_without(left_out):
        parts = CASES[case]()  # afresh, because a pass moves the running statistics
        x = parts.stem(parts.batch[0])
        for i, block in enumerate(parts.blocks):
            x = x if i == left_out else main(block(x.clone()))
        return parts.loss(parts.head(x), parts.batch[1]).item()

    whole = loss_without(None)
    assert result.settings["loss"] == pytest.approx(whole, rel=1e-9)
    for i, block in enumerate(result.blocks):
        if block.in_shape == block.out_shape:
            assert result["loss"][i] == pytest.approx(loss_without(i), rel=1e-6)
            assert result["loss_change"][i] == pytest.approx(loss_without(i) - whole, rel=1e-6)
        else:
            assert result["loss_change"][i] is None
            assert "cannot be dropped" in result.notes[-1]


class Residual(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.branch, self.shortcut = nn.Linear(c, d), nn.Linear(c, d)
        self.branch_dropped = False

    def forward(self, x):
        return self.shortcut(x) if self.branch_dropped else self.shortcut(x) + self.branch(x)


def test_a_block_that_names_its_branch_keeps_its_shortcut():
    torch.manual_seed(0)
    model = nn.Sequential(Residual(4, 6), Residual(6, 6)).double()
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.arange(5)
    result = deletion(model, (x, y), loss=F.cross_entropy)
    expected = F.cross_entropy(model[1](model[0].shortcut(x)), y).item()
    assert result["loss"][0] == pytest.approx(expected, rel=1e-12)
    assert not model[0].branch_dropped


def test_dropout_draws_the_same_numbers_in_every_pass():
    torch.manual_seed(0)

    class Nothing(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)

        def forward(self, x):
            return x + self.linear(x)

    model = nn.Sequential(Nothing(), Nothing(), nn.Dropout(0.5), nn.Linear(6, 3))
    batch = torch.randn(8, 6), torch.arange(8) % 3
    result = deletion(model, batch, loss=F.cross_entropy, blocks=["0", "1"])
    assert result["loss_change"] == (0.0, 0.0)
