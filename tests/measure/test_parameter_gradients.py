import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure import parameter_gradients
from tests.measure.by_hand import CASES


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_backward(case):
    pieces = CASES[case]()
    result = parameter_gradients(pieces.model, pieces.batch, loss=pieces.loss)
    inputs, targets = pieces.batch
    output = pieces.model(**inputs) if isinstance(inputs, dict) else pieces.model(inputs)
    pieces.loss(output, targets).backward()
    norms = [
        math.sqrt(
            sum(
                p.grad.square().sum().item()
                for n, p in pieces.model.named_parameters()
                if n.startswith(f"{name}.") and p.ndim > 1
            )
        )
        for name in pieces.names
    ]
    assert result["norm"] == pytest.approx(norms, rel=1e-6)
    assert result["fraction"] == pytest.approx([n / max(norms) for n in norms], rel=1e-6)


def test_frozen_blocks_are_blank_and_unreached_weights_are_zero():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    nn.init.zeros_(model[2].weight)
    result = parameter_gradients(
        model, (torch.randn(4, 3), torch.zeros(4).long()), loss=F.cross_entropy
    )
    assert result["norm"][:2] == (None, 0.0)
    assert result["zero_layers"] == (None, 1, 0)


def test_the_gradient_of_scales_is_told_apart_from_that_of_layers():
    branch = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model = nn.Sequential(branch, nn.Linear(3, 2))
    nn.init.zeros_(branch[1].weight)
    nn.init.ones_(branch[1].bias)
    batch = torch.randn(8, 3), torch.arange(8) % 2
    result = parameter_gradients(model, batch, loss=F.cross_entropy, blocks=["0", "1"])
    assert result["fraction"] == (0.0, 1.0)
    assert result["scale_fraction"] == (1.0, None)
