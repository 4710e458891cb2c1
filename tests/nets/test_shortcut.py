from itertools import pairwise

import pytest
import torch

from bathyscope.nets.shortcut import Place, Subsample, stages


@pytest.mark.parametrize("size", [1, 7, 8])
@pytest.mark.parametrize(("c", "d", "stride"), [(3, 6, 2), (3, 3, 2), (3, 5, 1), (4, 2, 2)])
def test_subsample_has_the_shape_of_a_strided_convolution(size, c, d, stride):
    x = torch.randn(2, c, size, size)
    y = Subsample(Place(c, d, stride))(x)
    conv = torch.nn.Conv2d(c, d, 3, stride=stride, padding=1)
    assert y.shape == conv(x).shape
    kept = min(c, d)
    assert torch.equal(y[:, :kept], x[:, :kept, ::stride, ::stride])
    assert y[:, kept:].abs().sum() == 0


def test_stages_chain_and_halve_once_each():
    locations = stages((2, 1, 3), (4, 8, 16), 4)
    assert [p.out_channels for p in locations] == [4, 4, 8, 16, 16, 16]
    assert [p.stride for p in locations] == [1, 1, 2, 2, 1, 1]
    assert [p.changes_dimension for p in locations] == [False, False, True, True, False, False]
    assert all(a.out_channels == b.in_channels for a, b in pairwise(locations))
