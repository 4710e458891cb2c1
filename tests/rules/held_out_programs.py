"""Fifteen programs with a bug of dependence and their healthy counterparts, written before any was diagnosed.

The mechanisms are those of `dependent_networks.py`; the programs are others. Each gives a model, a batch, a
loss and an optimizer, and names the codes that say what is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Program:
    """What is trained, how it is built with and without its bug, and the codes that name the bug."""

    name: str
    build: Callable[[bool], dict[str, Any]]
    codes: tuple[str, ...]


PROGRAMS: list[Program] = []


def program(*codes: str):
    """Add a program: a function of whether it has its bug."""

    def add(build):
        PROGRAMS.append(Program(build.__name__.replace("_", " "), build, codes))
        return build

    return add


class Net(nn.Module):
    """A module with layers by name and a function that is its forward pass."""

    def __init__(self, forward: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.run = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Any:
        return self.run(self, *args, **kwargs)


class Stored(nn.Linear):
    """A layer that computes in float32 whatever it is stored in: not every processor has bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.float(), self.bias.float())


def _setup(model, inputs, targets, loss=F.cross_entropy, *, lr=1e-3, parameters=None):
    held = list(model.parameters()) if parameters is None else parameters
    return {
        "model": model,
        "batch": (inputs, targets),
        "loss": loss,
        "optimizer": torch.optim.Adam(held, lr=lr),
    }


def _blobs(samples=64, features=16, classes=4):
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(samples) % classes
    centers = torch.randn(classes, features, generator=generator)
    return centers[labels] + 0.5 * torch.randn(samples, features, generator=generator), labels


def _tokens(samples=12, length=20, vocabulary=30):
    return torch.randint(
        1, vocabulary, (samples, length), generator=torch.Generator().manual_seed(4)
    )


def _token_loss(output, targets):
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


@program("mixed-samples")
def centering_by_the_mean_of_the_batch(bug):
    """Features are centered over the samples in place of the features, in eval mode too."""
    axis = 0 if bug else 1

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden - hidden.mean(axis, keepdim=True))

    return _setup(Net(forward, first=nn.Linear(16, 32), last=nn.Linear(32, 4)), *_blobs())


@program("mixed-samples")
def squeeze_and_excitation_pooled_over_the_batch(bug):
    """The gate of the channels is pooled over samples and pixels in place of pixels."""
    axes = (0, 2, 3) if bug else (2, 3)

    def forward(self, x):
        x = self.conv(x).relu()
        gate = self.gate(x.mean(axes, keepdim=True).flatten(1)).sigmoid()
        return self.last((x * gate[:, :, None, None]).mean((2, 3)))

    model = Net(forward, conv=nn.Conv2d(3, 8, 3), gate=nn.Linear(8, 8), last=nn.Linear(8, 4))
    return _setup(model, torch.randn(32, 3, 12, 12), torch.arange(32) % 4)


@program("mixed-samples")
def cumulative_sum_along_the_samples(bug):
    """A running sum over time runs over the samples."""
    axis = 0 if bug else 1

    def forward(self, x):
        return self.last(self.first(x).tanh().cumsum(axis).mean(1))

    model = Net(forward, first=nn.Linear(6, 16), last=nn.Linear(16, 4))
    return _setup(model, torch.randn(24, 15, 6), torch.arange(24) % 4)


@program("unread-input")
def only_the_first_channel_is_read(bug):
    """x[:, :1] in place of x: two of three channels never enter."""

    def forward(self, x):
        x = x[:, : 2 if bug else 8]
        return self.last(F.pad(x, (0, 8 - x.shape[1])).relu())

    return _setup(Net(forward, last=nn.Linear(8, 4)), torch.randn(32, 8), torch.arange(32) % 4)


@program("unread-input")
def sequences_are_cut_to_a_quarter(bug):
    """max_length is smaller than the texts are."""

    def forward(self, tokens):
        tokens = tokens[:, :5] if bug else tokens
        return self.last(self.rnn(self.table(tokens))[0].mean(1))

    model = Net(
        forward,
        table=nn.Embedding(30, 16),
        rnn=nn.GRU(16, 16, batch_first=True),
        last=nn.Linear(16, 4),
    )
    return _setup(model, _tokens(), torch.arange(12) % 4)


@program("missing-causal-mask")
def convolution_with_padding_on_both_sides(bug):
    """A causal convolution that is padded on both sides sees the next token."""

    def forward(self, tokens):
        x = self.table(tokens).transpose(1, 2)
        x = F.pad(x, (1, 1) if bug else (2, 0))
        return self.last(self.conv(x).relu().transpose(1, 2))

    model = Net(
        forward, table=nn.Embedding(30, 16), conv=nn.Conv1d(16, 16, 3), last=nn.Linear(16, 30)
    )
    tokens = _tokens()
    return _setup(model, tokens[:, :-1], tokens[:, 1:], _token_loss)


@program("labels-shifted-twice")
def data_set_and_loss_both_shift(bug):
    """The data set gives next tokens, and the loss shifts once more."""

    def loss(output, targets):
        if bug:
            return _token_loss(output[:, :-1], targets[:, 1:])
        return _token_loss(output, targets)

    def forward(self, tokens):
        return self.last(self.rnn(self.table(tokens))[0])

    model = Net(
        forward,
        table=nn.Embedding(30, 16),
        rnn=nn.LSTM(16, 16, batch_first=True),
        last=nn.Linear(16, 30),
    )
    tokens = _tokens()
    return _setup(model, tokens[:, :-1], tokens[:, 1:], loss)


@program("ignored-class")
def background_is_the_ignored_index(bug):
    """Segmentation whose ignore_index is a class that is to be learned."""

    def loss(output, targets):
        return F.cross_entropy(output, targets, ignore_index=2 if bug else -100)

    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    images = torch.randn(8, 3, 10, 10)
    return _setup(model, images, torch.randint(4, (8, 10, 10)), loss)


@program("unlisted-parameters")
def experts_in_a_dict(bug):
    """Layers are held in a plain dict."""
    experts = {name: nn.Linear(16, 16) for name in ("a", "b")}

    def forward(self, x):
        return self.last(sum(self.experts[name](x).relu() for name in ("a", "b")))

    held = experts if bug else nn.ModuleDict(experts)
    return _setup(Net(forward, experts=held, last=nn.Linear(16, 4)), *_blobs())


@program("repeated-layer")
def blocks_from_a_multiplied_list(bug):
    """nn.Sequential(*[block] * 4) holds one block four times."""
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(4)]
    blocks = blocks[:1] * 4 if bug else blocks
    return _setup(nn.Sequential(*blocks, nn.Linear(16, 4)), *_blobs())


@program("detached-parameters", "cut-gradient")
def features_pass_through_numpy(bug):
    """Features are taken out of the graph between encoder and head."""

    def forward(self, x):
        hidden = self.encoder(x).relu()
        return self.last(torch.from_numpy(hidden.detach().numpy()) if bug else hidden)

    return _setup(Net(forward, encoder=nn.Linear(16, 32), last=nn.Linear(32, 4)), *_blobs())


@program("small-update", "rounded-updates")
def half_precision_weights_at_a_small_rate(bug):
    """Steps of 1e-6 are lost in bfloat16 weights; in float32 they are not."""
    dtype = torch.bfloat16 if bug else torch.float32
    layers = Stored(16, 32).to(dtype), nn.ReLU(), Stored(32, 4).to(dtype)
    return _setup(nn.Sequential(*layers), *_blobs(), lr=2e-5 if bug else 1e-3)


@program("random-in-eval")
def dropout_by_hand(bug):
    """A mask is drawn by hand whatever the mode is."""

    def forward(self, x):
        hidden = self.first(x).relu()
        if bug or self.training:
            hidden = hidden * (torch.rand_like(hidden) > 0.3) / 0.7
        return self.last(hidden)

    return _setup(Net(forward, first=nn.Linear(16, 32), last=nn.Linear(32, 4)), *_blobs())


@program("still-statistics")
def momentum_of_another_library(bug):
    """momentum=0.99 means the weight of the past elsewhere, and that of the new batch here."""
    norm = nn.BatchNorm1d(32, momentum=0.99 if bug else 0.01)
    model = nn.Sequential(nn.Linear(16, 32), norm, nn.ReLU(), nn.Linear(32, 4))
    return _setup(model, *_blobs())


@program("interleaved-channels")
def bytes_viewed_as_channels_first(bug):
    """(height, width, channels) is viewed as (channels, height, width)."""
    steps = torch.linspace(0, 6, 20)
    pictures = torch.stack(
        [
            torch.stack(
                [torch.sin(steps + n + c)[:, None] + torch.cos(steps * (c + 1)) for c in range(3)],
                -1,
            )
            for n in range(16)
        ]
    )  # (samples, height, width, channels)
    images = pictures.reshape(16, 3, 20, 20) if bug else pictures.permute(0, 3, 1, 2).contiguous()
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    return _setup(model, images, torch.arange(16) % 4)
