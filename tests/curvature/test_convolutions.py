"""Convolutions as matrix products: torch's values and derivatives, and the Hessian of all columns."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.curvature import dense, hessian
from bathyscope.curvature.convolutions import _MOST_BYTES, _with_patches, matmul_convolutions


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
        {"stride": [2], "padding": [1]},
    ],
)
def test_values_and_two_derivatives_are_torchs(options, bias):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 7, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 2, 3, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, generator=generator, dtype=torch.float64) if bias else None
    results = []
    for inside in (False, True):
        if inside:
            with matmul_convolutions():
                out = F.conv2d(x, w, b, **options)
        else:
            out = F.conv2d(x, w, b, **options)
        first = torch.autograd.grad(out.tanh().sum(), (x, w), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, w))
        results.append((out, *first, *second))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-11)


def test_what_torch_does_better_is_left_to_it():
    x, w = (
        torch.randn(2, 2, 5, 5, dtype=torch.float64),
        torch.randn(2, 2, 3, 3, dtype=torch.float64),
    )
    assert _with_patches(x, w) is not None
    assert _with_patches(x.float(), w.float()) is None
    assert _with_patches(x, w, padding="same") is None
    assert _with_patches(x, w[:, :1], groups=2) is None
    assert _with_patches(x[0], w) is None
    samples = _MOST_BYTES // (8 * 18 * 9) + 1
    assert _with_patches(x[:1].expand(samples, -1, -1, -1), w) is None


@pytest.mark.parametrize("frozen", [None, "2.weight"])
def test_columns_by_parameter_are_those_of_the_whole(frozen):
    """Against products with every unit vector, and against torch's own dense Hessian."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.Conv2d(2, 2, 3, stride=2), nn.Tanh()
    )
    model.append(nn.Flatten()).append(nn.Linear(8, 3)).double()
    if frozen:
        model.get_parameter(frozen).requires_grad_(False)
    x, y = torch.randn(5, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    H = hessian(model, (x, y), loss=F.cross_entropy)
    matrix = H.dense()
    assert torch.equal(matrix, matrix.T)
    assert torch.allclose(matrix, dense(H.operator), rtol=1e-10, atol=1e-13)
    if frozen is None:
        shapes = {name: p.shape for name, p in model.named_parameters()}

        def loss(flat):
            parts = flat.split([shape.numel() for shape in shapes.values()])
            weights = {k: v.view(s) for (k, s), v in zip(shapes.items(), parts, strict=True)}
            return F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)

        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        wanted = torch.autograd.functional.hessian(loss, flat)
        assert torch.allclose(matrix, wanted, rtol=1e-10, atol=1e-13)
