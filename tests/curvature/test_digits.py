"""The network on which public tools were compared: an MLP on the digits with 1930 parameters."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import wasserstein_distance
from sklearn.datasets import load_digits
from torch import nn

from bathyscope.curvature import Unresolved, hessian


@pytest.fixture(scope="module")
def digits():
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    layers = [nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.double(), (x.double(), y)


@pytest.fixture(scope="module")
def spectrum(digits):
    """All eigenvalues of the dense matrix, in float64."""
    values = hessian(*digits).eigenvalues()
    # what others measured of this network; float32 training leaves the last digits to the machine
    assert values[-1].item() == pytest.approx(2.65713, rel=1e-2)
    assert values.sum().item() == pytest.approx(17.288, rel=1e-2)
    return values


def test_both_ends_in_few_products(digits, spectrum):
    top = hessian(*digits).extremes(5, ends="largest")
    assert top.products <= 20
    assert hessian(*digits).extremes(1).products <= 90
    assert hessian(*digits).extremes(4).products <= 20 + 90
    result = hessian(*digits).extremes(5)
    # the fifth smallest lies in the bulk: no Krylov space of fewer than 131 has it to 1e-5
    assert result.products <= 150
    for pairs, truth in ((result.largest, spectrum.flip(0)[:5]), (result.smallest, spectrum[:5])):
        np.testing.assert_allclose(pairs.values, truth, rtol=1e-5)
        assert (pairs.values - truth).abs().le(pairs.errors + 1e-12).all()
    np.testing.assert_allclose(top.largest.values, spectrum.flip(0)[:5], rtol=1e-5)
    assert result.checked


def test_density_with_400_products(digits, spectrum):
    result = hessian(*digits).density()
    assert result.products == 400
    points = torch.cat([result.atoms, result.nodes.reshape(-1)])
    fraction = torch.full_like(result.atoms, 1 / result.dim)
    mass = torch.cat([fraction, result.weights.reshape(-1) / result.num_probes])
    span = float(spectrum[-1] - spectrum[0])
    assert wasserstein_distance(points.numpy(), spectrum.numpy(), mass.numpy()) / span <= 5e-4


def test_index_is_exact_here_and_refused_from_400_products(digits, spectrum):
    """Peers report 0.56 for a truth near 0.3: the bulk is too close to zero for 40 steps."""
    H = hessian(*digits)
    tolerance = 1e-6 / float(spectrum.abs().max())
    truth = float((spectrum < -1e-6).double().mean())
    with pytest.raises(Unresolved, match="only known to lie") as refusal:
        H.negative_index(exact=False, tolerance=tolerance)
    assert refusal.value.lower <= truth <= refusal.value.upper
