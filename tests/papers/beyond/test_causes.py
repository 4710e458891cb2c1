import math

import pytest
import torch
import torch.nn.functional as F

from bathyscope.curvature import hessian
from bathyscope.papers.beyond.studies.causes import spectrum_shape
from bathyscope.papers.beyond.studies.networks import deep_network


@pytest.mark.parametrize("kind", ["plain", "tailored", "shortcut", "normalized"])
def test_the_shape_of_a_spectrum_agrees_with_all_of_its_eigenvalues(kind):
    torch.manual_seed(0)
    model = deep_network(kind, "dense", depth=5, width=8, shape=(1, 4, 4), num_classes=4)
    probe = (torch.randn(32, 1, 4, 4), torch.randint(4, (32,)))
    result = spectrum_shape(model, probe)
    values = hessian(model, probe, loss=F.cross_entropy, batchnorm="batch").eigenvalues()
    total = float(values.abs().sum())  # four probes know it to a few hundredths
    largest = float(values.abs().max())
    assert 10 ** result["sharpness"] == pytest.approx(largest, rel=1e-3)
    assert 10 ** result["spread"] == pytest.approx(largest * len(values) / total, rel=0.1)
    assert result["negative"] == pytest.approx(float(-values.clamp(max=0).sum()) / total, abs=0.05)


def test_a_flat_point_has_no_shape():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    model[2].bias.requires_grad_(False)
    model[2].weight.requires_grad_(False)
    result = spectrum_shape(model, (torch.randn(8, 4), torch.randint(2, (8,))))
    assert result["sharpness"] == -math.inf
    assert math.isnan(result["spread"])


def test_the_branches_of_shortcuts_have_no_mean_that_grows_with_depth():
    torch.manual_seed(0)
    shallow, deep = (
        deep_network("shortcut", "dense", depth=depth, width=64, shape=(64,), num_classes=10)
        for depth in (10, 200)
    )
    x = torch.randn(256, 64)
    sizes = [float(model[:2](x).detach().square().mean()) for model in (shallow, deep)]
    assert sizes[1] < 3 * sizes[0]
