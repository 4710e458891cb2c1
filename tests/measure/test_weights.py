import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.measure import weights
from tests.core import lookalikes as like
from tests.measure.by_hand import CASES


def explicit_operator(conv, size):
    """The matrix of a convolution with circular padding, column by column."""
    pad = conv.padding[0]

    def apply(x):
        padded = F.pad(x.view(1, conv.in_channels, *size), (pad,) * 4, mode="circular")
        return F.conv2d(padded, conv.weight, stride=conv.stride, groups=conv.groups).flatten()

    inputs = torch.eye(conv.in_channels * math.prod(size), dtype=torch.float64)
    return torch.stack([apply(column) for column in inputs], dim=1).detach()


def condition(matrix):
    values = torch.linalg.svdvals(matrix.double())
    return (values[0] / values[-1]).item()


def test_linear_layers_agree_with_svd():
    pieces = CASES["perceptron"]()
    result = weights(pieces.model, pieces.batch)
    for i, name in enumerate(pieces.names):
        weight = pieces.model.get_submodule(name).weight.detach()
        assert result["min"][i] == weight.min().item()
        assert result["max"][i] == weight.max().item()
        assert result["norm"][i] == pytest.approx(weight.norm().item(), rel=1e-12)
        assert result["spectral_norm"][i] == pytest.approx(
            torch.linalg.matrix_norm(weight, 2).item(), rel=1e-9
        )
        for column in ("condition_outputs", "condition_inputs", "condition_operator"):
            assert result[column][i] == pytest.approx(condition(weight), rel=1e-6)
        assert result["rank_fraction"][i] == 1
        assert result["worst_layer"][i] == name


def test_kernels_agree_with_every_unfolding_and_with_the_explicit_operator():
    pieces = CASES["residual_convolutions"]()
    model = pieces.model
    result = weights(model, pieces.batch)
    sizes = [(8, 8), (8, 8), (8, 8), (4, 4)]
    for i, name in enumerate(pieces.names):
        block = model.get_submodule(name)
        convs = [m for m in block.modules() if isinstance(m, nn.Conv2d)]
        kernels = [c.weight.detach() for c in convs]
        assert result["norm"][i] == pytest.approx(
            math.sqrt(sum(k.square().sum().item() for k in kernels)), rel=1e-9
        )
        for axis, mode in enumerate(("outputs", "inputs", "height", "width")):
            worst = max(condition(k.movedim(axis, 0).flatten(1)) for k in kernels)
            assert result[f"condition_{mode}"][i] == pytest.approx(worst, rel=1e-6)
        operators = [
            explicit_operator(
                c, sizes[i] if c is not block.conv2 else ((4, 4) if i > 1 else (8, 8))
            )
            for c in convs
        ]
        values = [torch.linalg.svdvals(o) for o in operators]
        assert result["spectral_norm"][i] == pytest.approx(
            max(v[0].item() for v in values), rel=1e-6
        )
        effective = [(v[0] / v[v > 1e-12 * v[0]][-1]).item() for v in values]
        assert result["condition_operator"][i] == pytest.approx(max(effective), rel=1e-6)
        worst = [n for n, m in block.named_modules() if m is convs[effective.index(max(effective))]]
        assert result["worst_layer"][i] == f"{name}.{worst[0]}"


def test_grouped_convolutions_count_as_operators():
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
    model = nn.Sequential(conv, nn.Flatten(), nn.Linear(64, 2)).double()
    result = weights(model, (torch.randn(2, 4, 4, 4, dtype=torch.float64), None))
    norm = torch.linalg.matrix_norm(explicit_operator(conv, (4, 4)), 2).item()
    assert result["spectral_norm"][0] == pytest.approx(norm, rel=1e-6)


def test_zero_and_singular_layers():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        model[0].weight.zero_()
        model[1].weight.copy_(torch.diag(torch.tensor([4.0, 2.0, 0.0, 0.0])))
    result = weights(model, (torch.randn(2, 4), None))
    assert result["zero_layers"] == (1, 0, 0)
    assert result["condition_outputs"][0] is None
    assert result["spectral_norm"][0] == 0
    assert result["condition_outputs"][1] == math.inf
    assert result["condition_operator"][1] == pytest.approx(2)
    assert result["rank_fraction"][1] == 0.5


@pytest.mark.parametrize("layer", [nn.Linear(4, 4), nn.Conv2d(4, 4, 3, padding=1)])
def test_weights_that_are_non_finite(layer):
    x = torch.randn(2, 4) if isinstance(layer, nn.Linear) else torch.randn(2, 4, 5, 5)
    model = nn.Sequential(layer, nn.ReLU())
    with torch.no_grad():
        layer.weight.view(-1)[0] = math.nan
    result = weights(model, (x, None))
    assert result["non_finite"][0] == pytest.approx(1 / layer.weight.numel())
    assert result["condition_outputs"] == (None,)
    assert result["norm"] == (None,)


def test_wide_layers_are_left_out_with_a_note():
    model = nn.Sequential(nn.Linear(40, 40), nn.Linear(40, 3))
    result = weights(model, (torch.randn(2, 40), None), largest_side=20)
    assert result["spectral_norm"][0] is None
    assert result["norm"][0] is not None
    assert result["spectral_norm"][1] is not None
    assert "wider than 20 were not decomposed (0: 40)" in result.notes[0]


def test_blocks_found_before_give_the_same_numbers():
    model = like.TorchvisionLike()
    batch = torch.randn(4, 3, 8, 8), torch.arange(4)
    assert (
        weights(model, batch, blocks=blocks_of(model, batch[0])).columns
        == weights(model, batch).columns
    )


def test_a_kernel_wider_than_its_image_falls_back_to_the_unfolding():
    conv = nn.Conv2d(2, 3, 5, padding=2, bias=False)
    result = weights(nn.Sequential(conv, nn.ReLU()), (torch.randn(2, 2, 3, 3), None))
    values = torch.linalg.svdvals(conv.weight.detach().flatten(1))
    assert result["spectral_norm"][0] == pytest.approx(values[0].item(), rel=1e-4)


def test_the_layer_of_lowest_rank_is_named_though_another_is_worse_conditioned():
    torch.manual_seed(0)
    low, ill = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
    with torch.no_grad():
        low.weight.copy_(torch.diag(torch.tensor([1.0, 1, 1, 0, 0, 0, 0, 0])))
        ill.weight.copy_(torch.diag(torch.logspace(0, -4, 8)))
    result = weights(nn.Sequential(nn.Sequential(low, ill)), (torch.randn(4, 8), None), blocks="0")
    assert (result["lowest_rank_layer"], result["worst_layer"]) == (("0.0",), ("0.1",))
    assert result["rank_fraction"] == (3 / 8,)
