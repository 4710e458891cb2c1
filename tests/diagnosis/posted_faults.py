"""Fifty-one faults as people post them, each with the causes that name it; written again, small.

A fault is a function that returns what `diagnose` is given: model, batch, and options. `ERROR` marks
those that are refused with a sentence.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.diagnosis.networks import Encoder, batch

ERROR = "error"
Case = tuple[nn.Module, Any, dict[str, Any]]


def digits(size=64):
    x, y = batch(3, size)
    return x.flatten(1), y


def mlp(*end, width=48, inputs=64, outputs=10, activation=nn.ReLU):
    return nn.Sequential(
        nn.Linear(inputs, width), activation(), nn.Linear(width, width), activation(),
        nn.Linear(width, outputs), *end,
    )  # fmt: skip


def adam(model, lr=1e-3, **options):
    return torch.optim.Adam(model.parameters(), lr=lr, **options)


def sgd(model, lr=0.05, **options):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, **options)


def case(model, given=None, *, optimizer=adam, loss=F.cross_entropy, **options) -> Case:
    made = optimizer(model) if callable(optimizer) else optimizer
    return model, digits() if given is None else given, {"loss": loss, "optimizer": made, **options}


def binary_batch():
    x, y = digits()
    return x, (y > 4).float().unsqueeze(1)


def tokens(vocabulary=50, samples=8, length=12):
    g = torch.Generator().manual_seed(2)
    return torch.randint(vocabulary, (samples, length), generator=g)


def next_tokens():
    return tokens(), tokens().roll(-1, 1)


def half(x):
    return (x * 1e6).half().float()


def heavy(model):
    return sgd(model, 0.01, weight_decay=10)


def heavier(model):
    return torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=100)


def lone_layer_norm():
    first = [nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 1)]
    return nn.Sequential(*first, nn.LayerNorm(1), nn.Linear(1, 10))


def classes_as_numbers():
    x, y = digits()
    return x, y.float().unsqueeze(1)


class TokenModel(nn.Module):
    """An embedding, a causal pre-norm encoder and a head that may share the embedding's weight."""

    def __init__(self, layers=2, width=32, vocabulary=50, *, norm_first=True, tied=False, std=None):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        for parameter in self.encoder.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, 0.0, std or 0.02)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        states = self.encoder(self.embed(x), mask=mask, is_causal=True)
        return self.head(states).transpose(1, 2)


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(48, 48), nn.ReLU())
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.second(self.first(x).detach()))


class NoGradTrunk(Detached):
    def forward(self, x):
        with torch.no_grad():
            x = self.second(self.first(x))
        return self.head(x)


class Quantized(nn.Module):
    """Takes the nearest entry of a codebook, without passing the gradient on."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.codes = nn.Parameter(0.1 * torch.rand(16, 32))
        self.third = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.second(self.first(x))
        return self.head(self.third(self.codes[torch.cdist(x, self.codes).argmin(1)]))


class Recurrent(nn.Module):
    def __init__(self, kind, width=16):
        super().__init__()
        self.cell = kind(1, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


def long_sequences(steps):
    g = torch.Generator().manual_seed(1)
    return torch.randn(16, steps, 1, generator=g), torch.randint(10, (16,), generator=g)


def plain_convnet(depth, *, norm, width=8):
    layers: list[nn.Module] = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Conv2d(width, width, 3, padding=1)]
        layers += [nn.BatchNorm2d(width)] if norm else []
        layers += [nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class Unnormalized(nn.Module):
    """Fifty residual blocks without a norm and without scaled branches."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(64, 48)
        self.blocks = nn.ModuleList([_Branch(48) for _ in range(50)])
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class _Branch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.kaiming_normal_(self.one.weight)
        nn.init.kaiming_normal_(self.two.weight)

    def forward(self, x):
        return x + self.two(F.relu(self.one(x)))


def filled(model, value):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.blocks = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.embed(x.reshape(len(x), 8, 8))
        mask = torch.zeros(len(x), 8, dtype=torch.bool)
        mask[0] = True
        return self.head(self.blocks(x + self.attention(x, x, x, key_padding_mask=mask)[0]).mean(1))


class Overflow(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.change = change
        self.first = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.second(self.change(self.first(x))))


class Normed(nn.Module):
    def __init__(self, norm, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 8), norm, nn.ReLU(), nn.Flatten(), nn.Linear(width, 32), nn.ReLU()
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.features(x.reshape(-1, 1, 8, 8)))


def with_dropout(p):
    return nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Dropout(p), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10)
    )


def frozen(model, part):
    for parameter in part(model).parameters():
        parameter.requires_grad_(False)
    return model


def zero_scaled():
    model = mlp()
    layer = nn.utils.parametrizations.weight_norm(model[2])
    with torch.no_grad():
        layer.parametrizations.weight.original0.zero_()
    return model


def detected(loss):
    return lambda output, targets: loss(output, targets)


def wrong_dtype():
    x, y = digits()
    return case(mlp(), (x, y.float()))


def other_model():
    return case(mlp(), optimizer=adam(mlp()))


def nan_input():
    x, y = digits()
    x = x.clone()
    x[3, 5] = float("nan")
    return case(mlp(), (x, y))


def lone_sample():
    x, y = digits()
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    return case(model, (x[:1], y[:1]))


def dead_relu():
    model = mlp()
    with torch.no_grad():
        model[2].bias.fill_(-100.0)
    return case(model)


def labels_one_too_high():
    x, y = digits()
    return case(mlp(), (x, y + 1))


def bytes_as_inputs():
    x, y = digits()
    return case(mlp(), ((x - x.min()) / (x.max() - x.min()) * 255, y), optimizer=sgd)


def saturated_discriminator():
    x, y = binary_batch()
    model = mlp(nn.Sigmoid(), outputs=1)
    with torch.no_grad():
        model[4].bias.fill_(200.0)
    return case(model, (x, y), loss=nn.BCELoss())


def saturated_regression():
    x, y = binary_batch()
    model = mlp(nn.Sigmoid(), outputs=1)
    with torch.no_grad():
        model[4].bias.fill_(120.0)
    return case(model, (x, y), loss=F.mse_loss)


def head_only(model):
    return torch.optim.Adam(model[4].parameters(), lr=1e-3)


def body_only(model):
    return torch.optim.Adam([*model[0].parameters(), *model[2].parameters()], lr=1e-3)


def sigmoid_stack():
    layers = [module for _ in range(40) for module in (nn.Linear(48, 48), nn.Sigmoid())]
    return case(nn.Sequential(nn.Linear(64, 48), nn.Sigmoid(), *layers, nn.Linear(48, 10)))


def softmax_stack():
    layers = [m for width in (64, 48) for m in (nn.Linear(width, 48), nn.Softmax(1))]
    return case(nn.Sequential(*layers, nn.Linear(48, 10)))


# name: (what is diagnosed, the causes of which one must be named among the first three findings)
FAULTS: dict[str, tuple[Callable[[], Case], tuple[str, ...]]] = {
    "labels of the wrong dtype": (wrong_dtype, (ERROR,)),
    "labels out of range": (labels_one_too_high, (ERROR,)),
    "optimizer of another model": (other_model, (ERROR,)),
    "NaN in the input": (nan_input, (ERROR,)),
    "BatchNorm with one sample": (lone_sample, (ERROR,)),
    "detach in forward": (lambda: case(Detached()), ("data-flow",)),
    "body under no_grad": (lambda: case(NoGradTrunk()), ("data-flow",)),
    "dead ReLU": (dead_relu, ("activation",)),
    "all weights zero": (lambda: case(filled(mlp(), 0.0)), ("initialization", "data-flow")),
    "all weights equal": (lambda: case(filled(mlp(), 0.1)), ("initialization",)),
    "100 convolutions": (lambda: case(plain_convnet(100, norm=False), batch(3, 16)),
                         ("architecture", "activation", "initialization")),
    "100 convolutions with BatchNorm": (lambda: case(plain_convnet(100, norm=True), batch(3, 16)),
                                        ("architecture",)),
    "50 residual blocks without a norm": (lambda: case(Unnormalized(), optimizer=sgd),
                                          ("architecture", "initialization", "learning-rate")),
    "GRU over 300 steps": (lambda: case(Recurrent(nn.GRU), long_sequences(300)),
                           ("architecture", "initialization")),
    "RNN over 500 steps": (lambda: case(Recurrent(nn.RNN), long_sequences(500)),
                           ("architecture", "initialization")),
    "learning rate 1e-7": (lambda: case(mlp(), optimizer=lambda m: sgd(m, 1e-7), budget=1000),
                           ("learning-rate", "budget")),
    "learning rate 0.1 for a transformer": (
        lambda: case(TokenModel(), next_tokens(), optimizer=lambda m: adam(m, 0.1)), ("learning-rate",)),
    "learning rate 1e-2 for a deep encoder": (
        lambda: case(Encoder(12), batch(3), optimizer=lambda m: adam(m, 1e-1)), ("learning-rate",)),
    "a fully masked row of attention": (lambda: case(Masked()), ("precision",)),
    "logarithm of zero": (lambda: case(Overflow(torch.log)), ("precision",)),
    "overflow in half precision": (lambda: case(Overflow(half)), ("precision",)),
    "overflow of exp": (lambda: case(Overflow(lambda x: torch.exp(100 * x))), ("precision",)),
    "all-zero data": (lambda: case(mlp(), (torch.zeros(64, 64), digits()[1])), ("input",)),
    "softmax before cross-entropy": (lambda: case(mlp(nn.Softmax(1))), ("output",)),
    "sigmoid before BCEWithLogits": (
        lambda: case(mlp(nn.Sigmoid(), outputs=1), binary_batch(), loss=nn.BCEWithLogitsLoss()), ("output",)),
    "saturated sigmoid with MSE": (saturated_regression, ("output", "loss")),
    "weight decay 10": (lambda: case(mlp(), optimizer=heavy), ("optimizer",)),
    "weight decay 100": (lambda: case(mlp(), optimizer=heavier), ("optimizer",)),
    "40 sigmoid layers": (sigmoid_stack, ("activation",)),
    "softmax between layers": (softmax_stack, ("activation",)),
    "dropout 1.0": (lambda: case(with_dropout(1.0)), ("mode",)),
    "dropout 0.95": (lambda: case(with_dropout(0.95)), ("mode",)),
    "GroupNorm on 1×1 maps": (lambda: case(Normed(nn.GroupNorm(16, 16), 16)), ("mode",)),
    "LayerNorm over one value": (lambda: case(lone_layer_norm()), ("mode",)),
    "loss summed over the batch": (
        lambda: case(mlp(), optimizer=sgd, loss=nn.CrossEntropyLoss(reduction="sum")), ("loss",)),
    "saturated discriminator": (saturated_discriminator, ("output",)),
    "inputs from 0 to 255": (bytes_as_inputs, ("input",)),
    "ReLU on logits": (lambda: case(mlp(nn.ReLU())), ("output",)),
    "MSE of [N, 1] against [N]": (
        lambda: case(mlp(outputs=1), (digits()[0], digits()[1].float()), loss=F.mse_loss), ("loss",)),
    "post-norm transformer of 24 layers at Adam 3e-3": (
        lambda: case(TokenModel(24, norm_first=False), next_tokens(), optimizer=lambda m: adam(m, 3e-3),
                     probes="full"), ("architecture", "initialization", "learning-rate")),
    "tied embedding with deviation 10": (
        lambda: case(TokenModel(tied=True, std=10.0), next_tokens()), ("initialization",)),
    "head not in the optimizer": (lambda: case(mlp(), optimizer=body_only), ("optimizer",)),
    "optimizer over the head only": (lambda: case(mlp(), optimizer=head_only), ("optimizer",)),
    "frozen body": (lambda: case(frozen(mlp(), lambda m: m[:4])), ("optimizer",)),
    "all parameters frozen": (lambda: case(frozen(mlp(), lambda m: m)), ("optimizer",)),
    "eval mode left on": (lambda: case(with_dropout(0.5).eval()), ("mode",)),
    "weight_norm with g = 0": (lambda: case(zero_scaled()), ("initialization", "data-flow")),
    "constant labels": (lambda: case(mlp(), (digits()[0], torch.full((64,), 3))), ("labels",)),
    "all labels ignored": (lambda: case(mlp(), (digits()[0], torch.full((64,), -100))), ("labels",)),
    "negated loss": (lambda: case(mlp(), loss=lambda o, t: -F.cross_entropy(o, t)), ("loss",)),
    "argmin inside a codebook layer": (lambda: case(Quantized()), ("data-flow",)),
    "sigmoid and one output for ten classes": (
        lambda: case(mlp(nn.Sigmoid(), outputs=1), classes_as_numbers(), loss=nn.MSELoss()),
        ("output",)),
}  # fmt: skip
