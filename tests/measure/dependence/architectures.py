"""Small networks (samples, positions, features) → (samples, positions, outputs) that read in known ways."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 8
LENGTH = 10


class Attention(nn.Module):
    """One layer of attention with a residual path; `groups` heads of keys and values are shared."""

    def __init__(self, *, heads=2, groups=None, causal=False, window=None, prefix=0, eager=False):
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        self.causal, self.window, self.prefix, self.eager = causal, window, prefix, eager
        size = WIDTH // heads
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, size * self.groups)
        self.value = nn.Linear(WIDTH, size * self.groups)
        self.out = nn.Linear(WIDTH, 5)

    def allowed(self, length):
        distance = torch.arange(length)[:, None] - torch.arange(length)[None]
        seen = torch.ones(length, length, dtype=torch.bool)
        if self.causal:
            seen &= distance >= 0
        if self.window is not None:
            seen &= distance.abs() <= self.window
        seen[:, : self.prefix] = True
        return seen[None]

    def attend(self, x, seen):
        def split(y, heads):
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)

        q = split(self.query(x), self.heads)
        repeat = self.heads // self.groups
        k, v = (
            split(layer(x), self.groups).repeat_interleave(repeat, 1)
            for layer in (self.key, self.value)
        )
        if self.eager:
            scores = q @ k.mT / q.shape[-1] ** 0.5
            scores = scores.masked_fill(~seen[:, None], float("-inf"))
            mixed = scores.softmax(-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        return self.out(x + mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.attend(x, self.allowed(x.shape[1]))


class Masked(Attention):
    """With a padding mask (1 where there is a token) or document ids beside the input."""

    def forward(self, x, attention_mask=None, document_ids=None):
        seen = self.allowed(x.shape[1]).expand(len(x), -1, -1)
        if attention_mask is not None:
            seen = seen & attention_mask.bool()[:, None] | torch.eye(x.shape[1]).bool()
        if document_ids is not None:
            seen = seen & (document_ids[:, None] == document_ids[:, :, None])
        return self.attend(x, seen)


class Encoder(nn.Module):
    """torch's own encoder layer with its causal mask."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, 2, dim_feedforward=16, dropout=0.1, batch_first=True
        )

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.layer(x, src_mask=mask)


class Recurrent(nn.Module):
    """A recurrent layer, its outputs at every step."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class ChannelsFirst(nn.Module):
    """Convolutions along the positions."""

    def __init__(self, *layers, left=0):
        super().__init__()
        self.layers, self.left = nn.Sequential(*layers), left

    def forward(self, x):
        return self.layers(F.pad(x.mT, (self.left, 0))).mT


class Mixer(nn.Module):
    """A linear map over the positions."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(LENGTH, LENGTH)

    def forward(self, x):
        return self.mix(x.mT).mT.tanh()


class Embedded(nn.Module):
    """Any of them behind an embedding."""

    def __init__(self, body, *, vocabulary=11, frozen=False):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH).requires_grad_(not frozen)
        self.body = body

    def forward(self, input_ids, **more):
        return self.body(self.embedding(input_ids), **more)


ARCHITECTURES = {
    "causal attention": (lambda: Attention(causal=True), "causal"),
    "causal attention, eager": (lambda: Attention(causal=True, eager=True), "causal"),
    "bidirectional attention": (Attention, "bidirectional"),
    "windowed attention": (lambda: Attention(window=1), "banded"),
    "grouped queries": (lambda: Attention(heads=4, groups=2, causal=True), "causal"),
    "prefix": (lambda: Attention(causal=True, prefix=4), "bidirectional"),
    "torch's encoder": (Encoder, "causal"),
    "lstm": (lambda: Recurrent(nn.LSTM(WIDTH, 4, batch_first=True)), "causal"),
    "gru in both directions": (
        lambda: Recurrent(nn.GRU(WIDTH, 4, batch_first=True, bidirectional=True)),
        "bidirectional",
    ),
    "convolution": (lambda: ChannelsFirst(nn.Conv1d(WIDTH, 4, 3, padding=1)), "banded"),
    "two dilated convolutions": (
        lambda: ChannelsFirst(
            nn.Conv1d(WIDTH, 4, 3, padding=1), nn.Tanh(), nn.Conv1d(4, 4, 3, padding=2, dilation=2)
        ),
        "banded",
    ),
    "causal convolution": (lambda: ChannelsFirst(nn.Conv1d(WIDTH, 4, 3), left=2), "causal"),
    "mlp at each position": (
        lambda: nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 3)),
        "diagonal",
    ),
    "mixer": (Mixer, "bidirectional"),
}
