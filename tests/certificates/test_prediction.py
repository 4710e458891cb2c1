"""Prediction weights solved for and written back: the risk is what the certificate says it can be."""

import pytest
import torch
from torch import nn

from bathyscope.certificates import best_prediction_weights, certify
from bathyscope.core import UsageError
from bathyscope.nets import aresnest, densenest, resnest


def batch(*, classes=False):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(300, 5, generator=g, dtype=torch.float64)
    y = torch.stack([(x[:, 0] * x[:, 1]).sin(), x[:, 2].abs()], dim=1)
    y = y + 0.5 * torch.randn(300, 2, generator=g, dtype=torch.float64)
    return (x, y.argmax(dim=1)) if classes else (x, y)


NETWORKS = {
    "wide": lambda: resnest(5, 2, width=16, feature_sizes=[4, 4]),
    "narrow": lambda: resnest(5, 2, width=6, feature_sizes=[4, 4]),
    "augmented": lambda: aresnest(5, 2, width=6, feature_sizes=[4, 4]),
    "dense": lambda: densenest(5, 2, feature_sizes=[4, 4]),
    "dense, no intercept": lambda: densenest(5, 2, feature_sizes=[4, 4], intercept=False),
}


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_network_then_stands_at_the_smallest_risk(kind, classes):
    torch.manual_seed(0)
    network = NETWORKS[kind]().double()
    data = batch(classes=classes)
    before = certify(network, data, curvature=False)
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    values = best_prediction_weights(network, data)
    assert all(torch.equal(kept[name], value) for name, value in network.state_dict().items())
    network.load_state_dict(kept | values)
    after = certify(network, data, curvature=False)
    minimum = before.attainable_risk if "narrow" in kind else before.bound
    assert after.risk + after.penalty == pytest.approx(minimum, rel=1e-6)
    assert after.risk < before.risk
    assert after.bound == pytest.approx(before.bound, rel=1e-9), "features have not moved"


def test_what_cannot_be_solved_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match="not a ResNEst"):
        best_prediction_weights(nn.Linear(5, 2).double(), batch())
    with pytest.raises(UsageError, match="must take vectors"):
        best_prediction_weights(resnest(5, 2, width=6, feature_sizes=[]), batch())
    with pytest.raises(UsageError, match="l1_loss is not differentiable"):
        best_prediction_weights(NETWORKS["wide"](), batch(), loss=nn.functional.l1_loss)


def test_of_all_mixes_the_nearest_to_the_network_s_is_taken():
    """Outputs see the mix only through the output weights: what they do not see must stay as it was."""
    torch.manual_seed(0)
    network = NETWORKS["wide"]().double()
    result = best_prediction_weights(network, batch())
    out, mix = result["output.weight"], result["blocks.1.mix.weight"]
    unseen = torch.eye(out.shape[1], dtype=out.dtype) - torch.linalg.pinv(out) @ out
    stands = network.blocks[-1].mix.weight.detach()
    torch.testing.assert_close(unseen @ mix, unseen @ stands, rtol=1e-8, atol=1e-10)
    assert (unseen @ stands).norm() > 0.1
    assert torch.linalg.matrix_rank(mix) > out.shape[0]
