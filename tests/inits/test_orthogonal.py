import pytest
import torch

from bathyscope.inits import orthogonal_
from bathyscope.inits.layers import group_weights
from bathyscope.inits.orthogonal import semi_orthogonal
from tests.inits.layers_of_every_kind import LAYERS


@pytest.mark.parametrize("kind", LAYERS)
def test_every_group_has_singular_values_of_one_size(kind):
    layer = orthogonal_(LAYERS[kind](), gain=1.5)
    for weight in group_weights(layer):
        values = torch.linalg.svdvals(weight.flatten(1))
        torch.testing.assert_close(values, torch.full_like(values, 1.5))


def test_distribution_does_not_prefer_a_sign():
    """Each diagonal entry of a uniform orthogonal matrix is positive half of the time."""
    generator = torch.Generator().manual_seed(0)
    draws = [semi_orthogonal(3, 3, like=torch.zeros(1), generator=generator) for _ in range(400)]
    fraction = torch.stack(draws).diagonal(dim1=1, dim2=2).gt(0).float().mean(0)
    assert ((fraction - 0.5).abs() < 6 * 0.5 / 20).all()
