"""What all schemes promise, on layers of every kind."""

import pytest
import torch
from torch import nn

from bathyscope import inits, nets
from bathyscope.core.errors import UnknownName
from tests.inits.layers_of_every_kind import LAYERS

ON_ANY_MODULE = [name for name in inits.SCHEMES if name != "zero_branch"]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("scheme", ON_ANY_MODULE)
def test_in_place_finite_and_decided_by_the_generator(scheme, kind):
    layer, again = LAYERS[kind](), LAYERS[kind]()
    parameters = list(layer.parameters())
    state = torch.get_rng_state()
    for each in (layer, again):
        assert inits.apply_(scheme, each, generator=torch.Generator().manual_seed(5)) is each
    assert torch.equal(state, torch.get_rng_state())
    assert all(a is b for a, b in zip(parameters, layer.parameters(), strict=True))
    assert torch.equal(layer.weight, again.weight)
    assert torch.isfinite(layer.weight).all()
    assert layer.weight.abs().sum() > 0
    assert layer.bias.abs().sum() == 0
    assert layer.weight.requires_grad
    assert layer.weight.grad_fn is None


@pytest.mark.parametrize("scheme", ON_ANY_MODULE)
def test_norm_layers_are_left_alone(scheme):
    norm = nn.BatchNorm2d(3)
    nn.init.uniform_(norm.weight)
    before = norm.weight.clone()
    inits.apply_(scheme, nn.Sequential(nn.Conv2d(3, 3, 1), norm))
    assert torch.equal(norm.weight, before)


@pytest.mark.parametrize("scheme", inits.SCHEMES)
def test_dtype_is_kept(scheme):
    model = nets.build("prebasic-8").double()
    inits.apply_(scheme, model)
    assert all(p.dtype == torch.float64 for p in model.parameters())


def test_unknown_scheme():
    with pytest.raises(UnknownName, match="orthogonal"):
        inits.apply_("ortogonal", nn.Linear(2, 2))


@pytest.mark.parametrize("scheme", [name for name in ON_ANY_MODULE if name != "small"])
def test_biases_begin_at_zero(scheme):
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(4, 4))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    inits.apply_(scheme, model)
    assert not model[0].bias.any()
    assert not model[2].bias.any()
    assert (model[0].weight != 1).any()
