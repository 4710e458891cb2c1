"""Tailored rectifiers against simulated layers, and what a network keeps when they are taken back."""

import math

import pytest
import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies import TailoredReLU, tailor_, tailored_slope
from bathyscope.remedies.tailored import cosine_after


def chain(depth, width=8, activation=nn.ReLU):
    return nn.Sequential(
        *(m for _ in range(depth) for m in (nn.Linear(width, width), activation()))
    )


@pytest.mark.parametrize("slope", [0.0, 0.4, 0.8])
def test_the_map_of_cosines_is_that_of_one_wide_layer(slope):
    """Reference: Gaussian pairs of a given cosine through the rectifier itself."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 400_000, generator=generator, dtype=torch.float64)
    for cosine in (0.0, 0.5, 0.9):
        pair = torch.stack([a, cosine * a + math.sqrt(1 - cosine**2) * b])
        out = TailoredReLU(slope)(pair)
        # standard error of a mean of products over 400,000 draws: below 0.004
        assert (out[0] * out[1]).mean().item() == pytest.approx(
            cosine_after(cosine, slope, 1), abs=0.015
        )
        assert out.square().mean(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=0.02)


@pytest.mark.parametrize("depth", [20, 60, 164])
def test_the_slope_takes_right_angles_to_the_target_and_grows_with_depth(depth):
    slope = tailored_slope(depth)
    assert cosine_after(0.0, slope, depth) == pytest.approx(0.9, abs=1e-9)
    assert tailored_slope(depth - 5) < slope < tailored_slope(depth + 5)


def test_a_shallow_network_keeps_the_rectifier():
    assert tailored_slope(1) == 0.0


@pytest.mark.parametrize(("depth", "target"), [(0, 0.9), (5, 0.0), (5, 1.0), (5, -1.0)])
def test_what_cannot_be_tailored_is_said(depth, target):
    with pytest.raises(UsageError, match="between 0 and 1"):
        tailored_slope(depth, target=target)
    with pytest.raises(UsageError, match="no activation"):
        tailor_(nn.Linear(2, 2))


def test_a_deep_network_keeps_angles_and_gradients():
    torch.manual_seed(0)
    model, x = chain(100, width=256), torch.randn(2, 256)
    plain = nn.functional.cosine_similarity(*model(x), dim=0)
    tailor_(model)
    a, b = (v / v.norm() for v in x)
    start = torch.stack([a, (b - (a @ b) * a)])
    out = model(start / start.norm(dim=1, keepdim=True) * 16)
    cosine = nn.functional.cosine_similarity(*out, dim=0).item()
    assert cosine == pytest.approx(0.9, abs=0.08)
    assert plain.item() > 0.99
    assert out.norm(dim=1).tolist() == pytest.approx(
        [13.0, 13.0], rel=0.6
    )  # finite width lets norms drift


def test_it_is_taken_back_bit_for_bit():
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(64, 2))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(2, 1, 4, 4)
    out = model(x)
    change = tailor_(model, generator=torch.Generator().manual_seed(0))
    assert isinstance(model[1], TailoredReLU)
    kernel = model[0].weight
    assert kernel[:, :, 0].abs().max() == 0
    change.undo()
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(model(x), out)
