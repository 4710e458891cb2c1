"""What a user hands in, and what a network answers."""

import pytest
import torch
from torch import nn

from bathyscope.certificates.observation import observe
from bathyscope.core import UsageError
from bathyscope.nets.nest_vectors import resnest


@pytest.mark.parametrize("model", ["abc", None, nn.Linear])
def test_what_is_no_network_is_said(model):
    with pytest.raises(UsageError, match="of a torch module"):
        observe(model, (torch.zeros(2, 3), torch.zeros(2, 1)))


def test_a_lazy_layer_is_said():
    with pytest.raises(UsageError, match="weight of the model has no values yet"):
        observe(nn.LazyLinear(1), (torch.zeros(2, 3), torch.zeros(2, 1)))


def test_images_are_seen_with_all_their_pixels():
    x = torch.arange(24.0).reshape(2, 3, 2, 2)
    seen = observe(nn.Sequential(nn.Flatten(), nn.Linear(12, 1)), (x, torch.zeros(2, 1)))
    assert torch.equal(seen.inputs, x.flatten(1).double())
    assert seen.on_images
    assert not seen.in_family
    assert seen.features == ()


def test_features_of_the_family_are_the_networks_own():
    network = resnest(3, 1, width=5, feature_sizes=[2]).double()
    x = torch.randn(7, 3, dtype=torch.float64)
    seen = observe(network, (x, torch.zeros(7, 1)))
    assert seen.in_family
    assert torch.equal(seen.features[0], x)
    assert torch.allclose(seen.features[1], network.features(x)[1])
    assert torch.allclose(seen.outputs, network(x))
