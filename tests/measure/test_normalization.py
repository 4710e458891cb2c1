import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure import standard
from bathyscope.measure.layers import channel_variances, norm_inputs


@pytest.mark.parametrize("shape", [(6, 3), (4, 5, 7), (4, 3, 5, 5)])
@pytest.mark.parametrize("mean", [0.0, 3.0, 1000.0])
def test_variances_agree_with_float64(shape, mean):
    x = torch.randn(shape) + mean
    exact = x.double().var([d for d in range(x.ndim) if d != 1], correction=0)
    torch.testing.assert_close(channel_variances(x).double(), exact, rtol=1e-3, atol=0)


def test_smallest_norm_of_each_block_is_reported_in_units_of_epsilon():
    model = nn.Sequential(
        nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()
    )
    with torch.no_grad():
        model[3].weight.mul_(1e-6)
    batch = torch.randn(32, 4), torch.zeros(32).long()
    result = standard(model, batch, loss=F.cross_entropy)["normalization"]
    assert result["layer"] == ("1", "4")
    assert result["variance_over_epsilon"][0] > 100
    assert result["variance_over_epsilon"][1] < 1e-3


def test_in_eval_mode_the_running_variance_counts():
    norm = nn.Sequential(nn.BatchNorm1d(2)).eval()
    with norm_inputs(norm) as seen:
        norm(torch.randn(5, 2) * 100)
    assert seen.variance["0"] == pytest.approx(1 / norm[0].eps)
