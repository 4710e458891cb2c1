from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import bathyscope as bs


def test_the_hessian_under_weight_normalization_is_that_of_the_function_written_out():
    torch.manual_seed(0)
    layers = OrderedDict(
        first=weight_norm(nn.Linear(3, 4)), bend=nn.Tanh(), last=weight_norm(nn.Linear(4, 2))
    )
    model = nn.Sequential(layers).double()
    x, y = torch.randn(10, 3).double(), torch.randint(2, (10,))
    named = dict(model.named_parameters())
    start = torch.cat([p.detach().reshape(-1) for p in named.values()])

    def loss_of(flat):
        parts = flat.split([p.numel() for p in named.values()])
        value = {n: v.view(p.shape) for (n, p), v in zip(named.items(), parts, strict=True)}

        def layer(name, inputs):
            g = value[f"{name}.parametrizations.weight.original0"]
            v = value[f"{name}.parametrizations.weight.original1"]
            return F.linear(inputs, v * (g / v.norm(dim=1, keepdim=True)), value[f"{name}.bias"])

        return F.cross_entropy(layer("last", torch.tanh(layer("first", x))), y)

    expected = torch.autograd.functional.hessian(loss_of, start)
    matrix = bs.hessian(model, (x, y), loss=F.cross_entropy)
    torch.testing.assert_close(matrix.dense(), expected)
    block = torch.randn(len(start), 9).double()
    torch.testing.assert_close(matrix @ block, expected @ block)
