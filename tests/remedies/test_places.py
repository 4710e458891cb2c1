"""Where remedies go: shortcuts of their own are seen, heads and first layers are known."""

import math

import pytest
import torch
from torch import nn

from bathyscope import nets
from bathyscope.core import blocks_of
from bathyscope.remedies import ScaleWeights
from bathyscope.remedies.places import last_layers, locations_of, unit_variance_factors
from tests.core import lookalikes as like

IMAGE = torch.randn(2, 3, 8, 8)


class Unit(nn.Module):
    """A linear map and an activation, with a shortcut before it, after it or none."""

    def __init__(self, kind, act=nn.Tanh):
        super().__init__()
        self.map, self.act, self.kind = nn.Linear(6, 6), act(), kind

    def forward(self, x):
        if self.kind == "post":
            return self.act(x + self.map(x))
        y = self.act(self.map(x))
        return x + y if self.kind == "pre" else y


def units(kind, act=nn.Tanh):
    return nn.Sequential(nn.Linear(5, 6), *(Unit(kind, act) for _ in range(4)), nn.Linear(6, 3))


@pytest.mark.parametrize(("kind", "spans"), [("none", 4), ("post", 4), ("pre", 0)])
def test_blocks_with_a_shortcut_before_the_activation_are_left_alone(kind, spans):
    model, x = units(kind), torch.randn(7, 5)
    result = locations_of(model, x, blocks_of(model, x))
    assert len(result.spans) == spans
    assert len(result.residual) == 4 - spans
    assert result.head == "5"
    assert result.norms == ("1.map", "2.map", "3.map", "4.map", "5")
    assert result.gain == 1


def test_a_chain_has_no_shortcut_around_its_first_layer_and_its_head():
    layers = [nn.Flatten(), nn.Linear(192, 8), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(8, 8), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(8, 4))
    result = locations_of(model, IMAGE, blocks_of(model, IMAGE))
    assert result.spans == (("3", "4"), ("5", "6"), ("7", "8"))
    assert result.norms == ("3", "5", "7", "9")
    assert result.gain == pytest.approx(math.sqrt(2))


def test_residual_networks_of_others_are_known_with_their_transitions():
    for model in (like.TorchvisionLike(), nets.build("prebasic-14", in_channels=3)):
        before = {n: p.clone() for n, p in model.named_parameters()}
        result = locations_of(model, IMAGE, blocks_of(model, IMAGE))
        assert not result.spans
        assert all(torch.equal(before[n], p) for n, p in model.named_parameters())


def test_attention_blocks_get_two_norms_where_they_have_none():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x):
            x = x + self.attention(x, x, x)[0]
            return x + self.down(torch.relu(self.up(x)))

    model = nn.Sequential(nn.Linear(5, 8), Block(), Block(), nn.Linear(8, 3))
    x = torch.randn(2, 4, 5)
    result = locations_of(model, x, blocks_of(model, x))
    assert result.norms == ("1.attention", "1.up", "2.attention", "2.up", "3")


def test_the_last_layer_is_on_the_branch_not_on_the_projection():
    model = like.TorchvisionLike()
    transition = next(b for b in blocks_of(model, IMAGE) if b.changes_dimension)
    assert last_layers(model, [transition]) == ("layer2.0.bn2",)


def test_a_factor_on_the_last_layer_acts_on_what_the_branch_gives_out():
    model = nets.build("prebasic-14", in_channels=3).eval()
    block = next(b for b in blocks_of(model, IMAGE) if not b.changes_dimension)
    module = model.get_submodule(block.name)
    x = torch.randn(2, *block.in_shape[1:])
    branch = module(x) - x
    (name,) = last_layers(model, [block])
    ScaleWeights(factors={name: 0.25}).apply_(model)
    torch.testing.assert_close(module(x) - x, 0.25 * branch, rtol=1e-4, atol=1e-5)


def test_every_layer_gives_out_unit_variance():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(3)))
    with torch.no_grad():
        model[1].weight.mul_(1e-3)
        model[2].weight.mul_(50)
    x = torch.randn(256, 32)
    ScaleWeights(factors=unit_variance_factors(model, x, blocks_of(model, x))).apply_(model)
    for layer in model:
        x = layer(x)
        assert x.std().item() == pytest.approx(1, rel=1e-3)
