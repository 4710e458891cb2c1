"""A clean bill for healthy networks: no finding of severity `problem`, at the start or trained."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data, nets
from bathyscope.core import Severity
from bathyscope.diagnosis import diagnose
from tests.core import lookalikes as like
from tests.diagnosis.networks import (
    Encoder,
    HandMadeViT,
    ResidualMLP,
    batch,
    chain,
    orthogonal_tanh,
)


def conv(name, **options):
    return lambda: nets.build(name, in_channels=1, **options)


def mlp(*widths, activation=nn.ReLU, he=False):
    def build():
        layers = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), activation()]
            if he:
                nn.init.kaiming_normal_(layers[-2].weight)
        return nn.Sequential(*layers[:-1])

    return build


def torchvision_like(*, zero=False):
    """With `zero`, the scale of the last norm of each branch starts at zero, as is often done."""
    model = like.TorchvisionLike(4)
    for block in [*model.layer1, *model.layer2]:
        if zero:
            nn.init.zeros_(block.bn2.weight)
    model.conv1 = nn.Conv2d(1, 8, 3, padding=1)
    model.fc = nn.Linear(16, 10)
    return model


QUICK = {
    "mlp": mlp(64, 128, 10),
    "mlp-4-tanh": mlp(64, 64, 64, 64, 10, activation=nn.Tanh),
    "residual-mlp-24": lambda: ResidualMLP(24),
    "resnet-20": conv("resnet-20"),
    "prebasic-32": conv("prebasic-32"),
    "encoder-6": lambda: Encoder(6),
    "vit-8": lambda: HandMadeViT(8),
    "torchvision-like": torchvision_like,
    "torchvision-like, branches of zero": lambda: torchvision_like(zero=True),
}
SLOW = {
    "mlp-8-gelu": mlp(64, *[96] * 7, 10, activation=nn.GELU, he=True),
    "mlp-10-selu": mlp(64, *[64] * 9, 10, activation=nn.SELU),
    "plain-20": conv("plain-20"),
    "resnet-56": conv("resnet-56"),
    "resnet-110": conv("resnet-110"),
    "preresnet-83": conv("preresnet-83"),
    "preresnet-164": conv("preresnet-164"),
    "procresnet-85": conv("procresnet-85"),
    "resnext-29": conv("resnext-29"),
    "wrn-16-2": conv("wrn-16-2"),
    "densenet-40": conv("densenet-40"),
    "highway-32": conv("highway-32"),
    "encoder-24": lambda: Encoder(24),
    "vit-16": lambda: HandMadeViT(16),
    "residual-mlp-80-gelu": lambda: ResidualMLP(80, activation=nn.GELU),
    "orthogonal-tanh-30": lambda: orthogonal_tanh(30),
    "layer-norm-chain-12": lambda: chain(12),
}


# Not looked at before the thresholds stood.
HELD_OUT = {
    "mlp-3-elu": mlp(64, 80, 40, 10, activation=nn.ELU),
    "mlp-6-he": mlp(64, *[72] * 5, 10, he=True),
    "residual-mlp-64-tanh": lambda: ResidualMLP(64, width=56, activation=nn.Tanh),
    "resnet-44": conv("resnet-44"),
    "prebasic-20": conv("prebasic-20"),
    "preresnet-47": conv("preresnet-47"),
    "preresnet-110": conv("preresnet-110"),
    "procresnet-49": conv("procresnet-49"),
    "resnext-47": conv("resnext-47"),
    "wrn-22-2": conv("wrn-22-2"),
    "densenet-22": conv("densenet-22"),
    "encoder-10": lambda: Encoder(10, width=48),
    "vit-12": lambda: HandMadeViT(12, width=48),
}


def problems(model, lr=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    result = diagnose(model, batch(7), optimizer=optimizer).findings
    return [
        (f.code, f.blocks[:3], dict(f.evidence)) for f in result if f.severity is Severity.PROBLEM
    ]


def trained(model, *, lr=0.02, epochs=6):
    digits = data.load("digits", normalize=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(1408, generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(digits.train_inputs[rows]), digits.train_labels[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (model(digits.test_inputs).argmax(1) == digits.test_labels).float().mean()
    assert accuracy > 0.7, "it is meant to be trained"
    return model


@pytest.mark.parametrize("name", QUICK)
def test_no_problem_at_the_start(name):
    torch.manual_seed(11)
    assert problems(QUICK[name]()) == []


@pytest.mark.parametrize("name", ["mlp", "residual-mlp-24", "vit-8"])
def test_no_problem_when_trained(name):
    torch.manual_seed(12)
    assert problems(trained(QUICK[name]())) == []


def test_torchs_default_start_of_a_deeper_gelu_network_is_no_healthy_one():
    torch.manual_seed(13)
    model = mlp(64, *[96] * 7, 10, activation=nn.GELU)()
    assert "collapsed-representation" in {code for code, *_ in problems(model)}
    with pytest.raises(AssertionError, match="meant to be trained"):
        trained(model)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HELD_OUT)
def test_no_problem_in_networks_held_out(name):
    torch.manual_seed(21)
    assert problems(HELD_OUT[name]()) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SLOW)
def test_no_problem_at_the_start_of_larger_networks(name):
    torch.manual_seed(13)
    assert problems(SLOW[name]()) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["resnet-20", "prebasic-32", "torchvision-like"])
def test_no_problem_when_larger_networks_are_trained(name):
    torch.manual_seed(14)
    assert problems(trained(QUICK[name]())) == []


def test_a_last_layer_of_zeros_is_no_problem_and_a_cut_before_it_is():
    torch.manual_seed(15)
    model = ResidualMLP(6)
    nn.init.zeros_(model.head[1].weight)
    assert problems(model) == []
    model.head[0].register_forward_pre_hook(lambda module, args: (args[0].detach(),))
    assert [code for code, *_ in problems(model)] == ["cut-gradient"]


class LayerDrop(nn.Module):
    """Residual layers, three in ten of which a training pass leaves out; `spare` never runs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()) for _ in range(10)
        )
        self.head = nn.Linear(16, 4)
        self.spare = nn.Linear(16, 4)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or torch.rand(()) > 0.3:
                x = x + layer(x)
        return self.head(x)


@pytest.mark.parametrize("seed", range(6))
def test_layers_that_a_pass_leaves_out_at_random_are_no_fault(seed):
    torch.manual_seed(seed)
    model = LayerDrop()
    inputs, labels = torch.randn(32, 16), torch.arange(32) % 4
    result = diagnose(model, (inputs, labels), loss=F.cross_entropy)
    assert "cut-gradient" not in {finding.code for finding in result.findings}
    unreached = next(f for f in result.findings if f.code == "unreached-parameters")
    assert unreached.evidence["parameters"] == "spare.weight, spare.bias"
    model.head.register_forward_pre_hook(lambda module, args: (args[0].detach(),))
    cut = diagnose(model, (inputs, labels), loss=F.cross_entropy)
    assert "cut-gradient" in {finding.code for finding in cut.findings}


class Adapted(nn.Module):
    """A frozen layer with a trained adapter at each of two; the second one may be left out."""

    def __init__(self, *, both):
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)).requires_grad_(False)
        self.adapters = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(2))
        self.both = both

    def forward(self, x):
        x = self.base[0](x) + self.adapters[0](x)
        x = self.base[1](x.relu()) + (self.adapters[1](x) if self.both else 0)
        return self.base[2](x.relu())


@pytest.mark.parametrize(("both", "severity"), [(True, []), (False, ["problem"])])
def test_half_of_the_adapters_without_a_gradient_are_a_problem(both, severity):
    batch = torch.randn(16, 8), torch.randint(8, (16,))
    result = diagnose(Adapted(both=both), batch)
    assert [f.severity for f in result.findings if f.code == "unreached-parameters"] == severity
