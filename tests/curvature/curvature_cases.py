"""One table of small models that every curvature test passes through, and a slow, obvious reference."""

import copy
import types

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase

DOUBLE = torch.float64


class Residual(nn.Module):
    """Two blocks with a shortcut around each."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.one = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        self.two = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.one(x)
        return self.head(x + self.two(x))


class Attention(nn.Module):
    """A sequence of three tokens, attended to and averaged."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        q, k, v = self.qkv(x.reshape(len(x), 3, 4)).unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.head(mixed.transpose(1, 2).flatten(2).mean(dim=1))


class Recurrent(nn.Module):
    """An LSTM over three steps."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x):
        return self.lstm(x.reshape(len(x), 3, 4))[0][:, -1]


class Tied(nn.Module):
    """The same weight used as encoder and, transposed, as decoder."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.again = self.inner
        self.head = nn.Linear(4, 3, bias=False)

    def forward(self, x):
        x = torch.tanh(self.again(torch.tanh(self.inner(x))))
        return self.head(F.linear(x, self.inner.weight.T))


class Partial(nn.Module):
    """A frozen layer, and one that is never used."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(4, 4)
        self.used = nn.Linear(4, 3)
        self.unused = nn.Linear(2, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.used(torch.tanh(self.frozen(x)))


def _conv():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=False),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Conv2d(2, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


_MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)),
        (3,),
    ),
    "conv": (_conv, (1, 4, 4)),
    "residual": (Residual, (3,)),
    "attention": (Attention, (12,)),
    "recurrent": (Recurrent, (12,)),
    "tied": (Tied, (4,)),
    "partial": (Partial, (4,)),
}
NAMES = tuple(_MODELS)


def case(name, *, samples=12, dtype=DOUBLE, seed=0):
    """A model with parameters off their starting values, and a batch."""
    make, shape = _MODELS[name]
    torch.manual_seed(seed)
    model = make().to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.add_(0.2 * torch.rand_like(buffer))
    return model, (torch.randn(samples, *shape, dtype=dtype), torch.randint(0, 3, (samples,)))


def reference(model, batches, *, loss=F.cross_entropy, batchnorm="batch"):
    """`torch.func.hessian` of the sample-weighted mean, frozen parameters as zeros.

    BatchNorm in batch mode is written out: torch.func differentiates the fused one wrongly (its
    answer is 15 % from finite differences, where the written-out one agrees to nine digits).
    """
    model = copy.deepcopy(model)  # torch.func.functional_call does not put shared modules back
    for module in model.modules():
        module.training = isinstance(module, _NormBase) and batchnorm == "batch"
        if module.training:
            module.forward = types.MethodType(_batchnorm_written_out, module)
    names = [n for n, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    free = torch.cat([torch.full((p.numel(),), float(p.requires_grad)) for p in model.parameters()])
    total = sum(len(y) for _, y in batches)

    def mean_loss(vector):
        vector = flat + free.to(flat) * (vector - flat)
        parts = vector.split([s.numel() for s in shapes])
        theta = {n: p.reshape(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        value = 0.0
        for x, y in batches:
            value = value + len(y) / total * loss(functional_call(model, theta, (x,)), y)
        return value

    with sdpa_kernel(SDPBackend.MATH):
        return torch.func.hessian(mean_loss)(flat)


def _batchnorm_written_out(self, x):
    over = [0, *range(2, x.ndim)]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    var, mean = torch.var_mean(x, dim=over, correction=0, keepdim=True)
    normal = (x - mean) / (var + self.eps).sqrt()
    return normal * self.weight.reshape(shape) + self.bias.reshape(shape)


def state_of(model):
    """Everything that a measurement must not touch."""
    return {
        "state": {n: t.clone() for n, t in model.state_dict().items()},
        "grad": {
            n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()
        },
        "training": [m.training for m in model.modules()],
        "hooks": [len(m._forward_hooks) for m in model.modules()],
        "rng": torch.get_rng_state(),
    }


def assert_same_state(before, after):
    assert before["training"] == after["training"]
    assert before["hooks"] == after["hooks"]
    assert torch.equal(before["rng"], after["rng"])
    for name, tensor in before["state"].items():
        assert torch.equal(tensor, after["state"][name]), name
    for name, grad in before["grad"].items():
        other = after["grad"][name]
        assert (grad is None) == (other is None), name
        assert grad is None or torch.equal(grad, other), name
