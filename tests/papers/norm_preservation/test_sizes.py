"""Counts and gains behind the sizes of the paper, against networks that are built."""

import pytest
import torch

from bathyscope import nets
from bathyscope.papers.norm_preservation.claims.sizes import _gain, parameter_count


@pytest.mark.parametrize("name", ["preresnet-56", "procresnet-58", "preresnet-11"])
def test_parameters_are_counted_as_in_the_network_itself(name):
    model = nets.build(name, num_classes=10)
    assert parameter_count(name) == sum(p.numel() for p in model.parameters())


def test_the_gain_is_one_where_the_range_is_everything():
    generator = torch.Generator().manual_seed(0)
    assert float(_gain(generator, 12, 12)) == pytest.approx(1.0, abs=1e-12)


def test_the_mean_gain_is_one():
    generator = torch.Generator().manual_seed(0)
    gains = torch.stack([_gain(generator, 4, 16) for _ in range(2000)])
    assert abs(float(gains.mean()) - 1) < 5 * float(gains.std()) / 2000**0.5
