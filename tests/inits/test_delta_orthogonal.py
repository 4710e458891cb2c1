import pytest
import torch
from torch import nn

from bathyscope.inits import delta_orthogonal_
from bathyscope.inits.layers import group_weights, middle_taps
from tests.inits.layers_of_every_kind import LAYERS


@pytest.mark.parametrize("kind", LAYERS)
def test_all_energy_is_at_the_middle_tap_and_orthonormal(kind):
    layer = delta_orthogonal_(LAYERS[kind]())
    for weight in group_weights(layer):
        taps = middle_taps(weight)
        assert taps.count_nonzero() == weight.count_nonzero()
        values = torch.linalg.svdvals(taps)
        torch.testing.assert_close(values, torch.ones_like(values))


def test_norms_forward_with_more_outputs_and_backward_with_fewer():
    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    wide = delta_orthogonal_(nn.Conv2d(4, 7, 3, padding=1, bias=False))
    torch.testing.assert_close(wide(x).norm(), x.norm())
    narrow = delta_orthogonal_(nn.Conv2d(4, 3, 3, padding=1, bias=False))
    gradient = torch.randn(2, 3, 6, 6)
    (back,) = torch.autograd.grad(narrow(x), x, gradient)
    torch.testing.assert_close(back.norm(), gradient.norm())
