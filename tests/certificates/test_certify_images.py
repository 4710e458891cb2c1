"""Certificates of networks over images: both linear predictors, and when there are too many pixels."""

import pytest
import torch
from torch import nn

from bathyscope.certificates import certify


def images(n=120, side=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 1, side, side, generator=g, dtype=torch.float64)
    y = x.flatten(1) @ torch.randn(side * side, 2, generator=g, dtype=torch.float64)
    return x, y + 0.5 * torch.randn(n, 2, generator=g, dtype=torch.float64)


def test_the_best_linear_predictor_of_an_image_is_of_its_pixels():
    x, y = images()
    torch.manual_seed(0)
    seen = certify(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), (x, y))
    assert seen.linear_risk == certify(nn.Linear(16, 2), (x.flatten(1), y)).linear_risk
    design = torch.cat([x.flatten(1), torch.ones(len(x), 1)], dim=1)
    exact = (y - design @ torch.linalg.lstsq(design, y).solution).square().mean()
    assert seen.linear_risk == pytest.approx(float(exact), abs=1e-12)
    # a model beside the best one, far below what the mean over positions allows
    close = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).double()
    with torch.no_grad():
        solution = torch.linalg.lstsq(design, y).solution
        close[1].weight.copy_(solution[:-1].T + 0.01)
        close[1].bias.copy_(solution[-1])
    result = certify(close, (x, y))
    assert result.linear_risk < result.risk < 0.1 * result.constant_risk
    assert result.no_worse_than_linear is False


def test_a_convolutional_member_tells_both_linear_predictors():
    from bathyscope import nets

    x, y = images(side=8)
    torch.manual_seed(0)
    net = nets.build_for("densenest-8", (1, 8, 8), num_classes=2)
    result = certify(net, (x, y), blocks=False)
    pixels = certify(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), (x, y))
    assert result.linear_risk == pytest.approx(pixels.linear_risk, abs=1e-12)
    pooled = certify(nn.Linear(1, 2), (x.flatten(1).mean(dim=1, keepdim=True), y))
    assert result.linear_feature_risk == pytest.approx(pooled.linear_risk, abs=1e-12)
    assert result.bound <= result.linear_feature_risk
    assert "of the pooled input" in str(result)
    assert result.no_worse_than_linear is False


def test_more_pixels_than_samples_interpolate():
    x, y = images(n=12)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    result = certify(net, (x, y))
    assert result.linear_risk == pytest.approx(0, abs=1e-20)
    assert result.linear.interpolates
    assert any("interpolates" in note for note in result.notes)
    assert not certify(net, images(n=40)).linear.interpolates


def test_too_many_pixels_are_no_linear_predictor(monkeypatch):
    import bathyscope.certificates.linear as linear

    monkeypatch.setattr(linear, "_MOST_WORK", 1000)
    result = certify(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), images())
    assert result.linear is None
    assert result.linear_risk is None
    assert result.no_worse_than_linear is None
    assert any("120 samples of 16 values" in note for note in result.notes)
    assert result.as_dict()["no_worse_than_linear"] is None
