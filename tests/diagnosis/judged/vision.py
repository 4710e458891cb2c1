"""Programs over pictures and rows of numbers."""

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data


def digits(samples=64):
    loaded = data.load("digits", normalize=True)
    return loaded.train_inputs[:samples], loaded.train_labels[:samples]


def rows(samples=128, columns=12):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(samples, columns, generator=generator)
    mix = torch.randn(columns, generator=generator)
    return x, torch.tanh(x @ mix / 2) + 0.05 * torch.randn(samples, generator=generator)


def adam(model, lr=1e-3, **options):
    return torch.optim.Adam(model.parameters(), lr=lr, **options)


def convnet(*end, norm=nn.BatchNorm2d):
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), norm(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), norm(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10), *end,
    )  # fmt: skip


def mlp(*end, inputs=12, outputs=1, width=48):
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, outputs), *end,
    )  # fmt: skip


class Centered(nn.Module):
    """Subtracts the mean over the batch, in eval mode too."""

    def __init__(self, fault):
        super().__init__()
        self.axis, self.body = (0 if fault else (1, 2, 3)), convnet()

    def forward(self, x):
        return self.body((x - x.mean(self.axis, keepdim=True)) / 2)


def centered_over_samples(fault):
    model = Centered(fault)
    return model, digits(), F.cross_entropy, adam(model)


class SoftmaxOverSamples(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.axis, self.body = (0 if fault else 1), convnet()

    def forward(self, x):
        return self.body(x).log_softmax(self.axis)


def softmax_over_samples(fault):
    model = SoftmaxOverSamples(fault)
    return model, digits(), F.nll_loss, adam(model)


class TwoInputs(nn.Module):
    """A picture beside a table; the table's features are computed and left out."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.picture = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.table = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, picture, table):
        one, two = self.picture(picture), self.table(table)
        return self.head(torch.cat([one, one if self.fault else two], 1))


def table_left_out(fault):
    x, y = digits()
    model = TwoInputs(fault)
    return model, ({"picture": x, "table": rows(64)[0]}, y), F.cross_entropy, adam(model)


def normalized_twice(fault):
    """Pictures from 0 to 1 are normalized with the mean and deviation of bytes."""
    x, y = digits()
    x = (x - x.min()) / (x.max() - x.min())
    x = (x - 127.5) / 127.5 if fault else (x - 0.5) / 0.5
    model = nn.Sequential(nn.Flatten(), mlp(inputs=64, outputs=10))
    return model, (x, y), F.cross_entropy, adam(model)


def stacked_by_view(fault):
    """Pictures with the channels last are put into order by `view` where a permutation is needed."""
    x, y = digits()
    wide = F.interpolate(x, size=16, mode="bilinear")
    colors = torch.stack([wide[:, 0], wide[:, 0].flip(1) * 0.5, wide[:, 0] ** 2], -1)
    colors = colors.reshape(64, 3, 16, 16) if fault else colors.permute(0, 3, 1, 2)
    model = convnet()
    model[0] = nn.Conv2d(3, 16, 3, padding=1)
    return model, (colors.contiguous(), y), F.cross_entropy, adam(model)


class Lists(nn.Module):
    """Blocks in a dict of Python."""

    def __init__(self, fault):
        super().__init__()
        blocks = {str(i): nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for i in range(4)}
        self.first, self.head = nn.Linear(12, 32), nn.Linear(32, 1)
        self.blocks = blocks if fault else nn.ModuleDict(blocks)

    def forward(self, x):
        x = self.first(x).relu()
        for block in self.blocks.values():
            x = x + block(x)
        return self.head(x).squeeze(1)


def blocks_in_a_dict(fault):
    model = Lists(fault)
    return model, rows(), F.mse_loss, adam(model)


class Rounded(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault, self.body = fault, mlp()

    def forward(self, x):
        y = self.body(x).squeeze(1)
        return torch.round(y * 20) / 20 if self.fault else y


def rounded_output(fault):
    model = Rounded(fault)
    return model, rows(), F.mse_loss, adam(model)


def clamped_output(fault):
    """Predictions are clamped to [0, 1] while targets go from −1 to 1."""

    class Clamped(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp()

        def forward(self, x):
            y = self.body(x).squeeze(1)
            return y.clamp(0, 1) if fault else y

    model = Clamped()
    return model, rows(), F.mse_loss, adam(model)


def targets_beyond_tanh(fault):
    x, y = rows()
    model = mlp(nn.Tanh(), nn.Flatten(0))
    return model, (x, 8 * y + 20 if fault else 0.9 * y.clamp(-1, 1)), F.mse_loss, adam(model)


def equal_branches(fault):
    """An ensemble whose members are copies of one another."""

    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            first = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16))
            self.members = nn.ModuleList([first] * 4 if fault else [self._one() for _ in range(4)])
            self.head = nn.Linear(64, 1)

        @staticmethod
        def _one():
            return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, x):
            return self.head(torch.cat([m(x) for m in self.members], 1)).squeeze(1)

    model = Ensemble()
    return model, rows(), F.mse_loss, adam(model)


def body_frozen_at_random(fault):
    """A feature extractor that is frozen as for transfer; its weights were never loaded."""
    torch.manual_seed(4)
    model = convnet()
    if fault:
        for parameter in model[:6].parameters():
            parameter.requires_grad_(False)
    return model, digits(), F.cross_entropy, adam(model)


def optimizer_of_another_copy(fault):
    """The optimizer is made before the body is replaced."""
    model = convnet()
    optimizer = adam(model)
    if fault:
        model[3] = nn.Conv2d(16, 32, 3, stride=2, padding=1)
    return model, digits(), F.cross_entropy, optimizer


def epsilon_swallows(fault):
    model = convnet()
    return model, digits(), F.cross_entropy, adam(model, eps=10.0 if fault else 1e-8)


PROGRAMS = {
    "centered over the samples": (centered_over_samples, ("mixed-samples",)),
    "softmax over the samples": (softmax_over_samples, ("mixed-samples",)),
    "a table that is left out": (table_left_out, ("unread-input", "unreached-parameters")),
    "normalized as bytes": (
        normalized_twice,
        ("unscaled-input", "constant-columns", "precision-loss", "blank-input", "input-offset"),
    ),
    "channels by view": (stacked_by_view, ("interleaved-channels",)),
    "blocks in a dict": (blocks_in_a_dict, ("unlisted-parameters",)),
    "rounded output": (rounded_output, ("cut-gradient", "zero-gradient")),
    "clamped output": (
        clamped_output,
        ("unreachable-targets", "clipped-output", "saturated-output"),
    ),
    "targets beyond tanh": (
        targets_beyond_tanh,
        ("unreachable-targets", "saturated-output", "unscaled-targets"),
    ),
    "one member four times": (equal_branches, ("repeated-layer",)),
    "frozen and never loaded": (
        body_frozen_at_random,
        ("frozen-fresh-weights", "frozen-parameters"),
    ),
    "a layer replaced behind the optimizer": (optimizer_of_another_copy, ("not-in-optimizer",)),
    "epsilon above the gradients": (epsilon_swallows, ("swallowed-by-epsilon", "small-update")),
}
