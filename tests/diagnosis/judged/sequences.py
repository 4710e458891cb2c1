"""Programs over tokens and time series."""

import math

import torch
import torch.nn.functional as F
from torch import nn

WORDS, LENGTH, WIDTH = 40, 20, 32


def adamw(model, lr=1e-3, **options):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, **options)


def text(samples=24, length=LENGTH):
    """Sentences of a small grammar: each word is one of three followers of the last."""
    generator = torch.Generator().manual_seed(11)
    followers = torch.randint(2, WORDS, (WORDS, 3), generator=generator)
    rows = torch.randint(2, WORDS, (samples, 1), generator=generator)
    while rows.shape[1] < length + 1:
        picks = torch.randint(3, (samples,), generator=generator)
        rows = torch.cat([rows, followers[rows[:, -1], picks][:, None]], 1)
    return rows


def next_word(samples=24):
    rows = text(samples)
    return rows[:, :-1], rows[:, 1:]


def word_loss(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def series(samples=32, length=24, channels=6):
    generator = torch.Generator().manual_seed(5)
    phase = 6.3 * torch.rand(samples, 1, 1, generator=generator)
    label = torch.randint(4, (samples,), generator=generator)
    time = torch.arange(length)[None, :, None] * (0.2 + 0.15 * label[:, None, None])
    waves = torch.sin(time + phase + torch.arange(channels))
    return waves + 0.2 * torch.randn(samples, length, channels, generator=generator), label


class SelfAttention(nn.Module):
    """Written out, with places where people slip."""

    def __init__(self, fault="", heads=4):
        super().__init__()
        self.fault, self.heads = fault, heads
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            t.view(b, n, self.heads, d // self.heads).transpose(1, 2)
            for t in self.qkv(x).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        if self.fault == "mask transposed":
            mask = mask.T
        scores = scores.masked_fill(~mask, -1e9 if self.fault != "mask after" else 0.0)
        weights = scores.softmax(-2 if self.fault == "softmax over queries" else -1)
        if self.fault == "mask after":
            weights = weights * mask
        mixed = weights @ v
        if self.fault == "heads not merged":
            return self.out(mixed.reshape(b, n, d))
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class Decoder(nn.Module):
    def __init__(self, fault="", layers=3):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.fault = fault
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * layers + 1))
        self.attention = nn.ModuleList(SelfAttention(fault) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
            for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        if self.fault == "one place":
            places = torch.zeros_like(places)
        x = self.words(tokens) + self.places(places)
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlps, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x))


def decoder(which):
    def program(fault):
        model = Decoder(which if fault else "")
        return model, next_word(), word_loss, adamw(model)

    return program


class Bidirectional(nn.Module):
    """A recurrent language model."""

    def __init__(self, fault):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=fault)
        self.head = nn.Linear(WIDTH * (2 if fault else 1), WORDS)

    def forward(self, tokens):
        return self.head(self.rnn(self.words(tokens))[0])


def recurrent_leak(fault):
    model = Bidirectional(fault)
    return model, next_word(), word_loss, adamw(model)


class Convolutional(nn.Module):
    """A language model of convolutions over time, which are to look back only."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3) for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens).transpose(1, 2)
        for layer in self.layers:
            x = x + F.relu(layer(F.pad(x, (1, 1) if self.fault else (2, 0))))
        return self.head(x.transpose(1, 2))


def convolution_leak(fault):
    model = Convolutional(fault)
    return model, next_word(), word_loss, adamw(model)


class BatchAttention(nn.Module):
    """torch's attention with its default order, on (batch, time, features)."""

    def __init__(self, fault):
        super().__init__()
        self.inner = nn.Linear(6, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=not fault)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.inner(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x.mean(1))


def batch_attention(fault):
    model = BatchAttention(fault)
    return model, series(), F.cross_entropy, adamw(model)


class FoldedTime(nn.Module):
    """Steps of time are folded into the batch before the recurrent layer."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.rnn = nn.LSTM(6, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        b, n, c = x.shape
        if self.fault:
            states, _ = self.rnn(x.reshape(b * n, 1, c))
            return self.head(states.reshape(b, n, -1)[:, -1])
        return self.head(self.rnn(x)[0][:, -1])


def folded_time(fault):
    model = FoldedTime(fault)
    return model, series(), F.cross_entropy, adamw(model)


class Detaching(nn.Module):
    """A cell that is unrolled by hand; its state is detached at every step."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.inner = nn.Linear(6, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        state = torch.zeros(len(x), WIDTH)
        for t in range(x.shape[1]):
            state = self.cell(self.inner(x[:, t]), state.detach() if self.fault else state)
        return self.head(state)


def detached_state(fault):
    model = Detaching(fault)
    return model, series(), F.cross_entropy, adamw(model)


class Translator(nn.Module):
    """An encoder and a decoder, whose cross attention is given its own states in place of the encoder's."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cross = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        memory, _ = self.encoder(self.source(source))
        states, _ = self.decoder(self.target(target))
        keys = states if self.fault else memory
        causal = torch.ones(states.shape[1], states.shape[1], dtype=torch.bool).triu(1)
        mixed, _ = self.cross(states, keys, keys, attn_mask=causal if self.fault else None)
        return self.head(states + mixed)


def encoder_unread(fault):
    rows, answers = text(), text().flip(0)
    model = Translator(fault)
    given = {"source": rows[:, :-3], "target": answers[:, :-1]}
    return model, (given, answers[:, 1:]), word_loss, adamw(model)


def padding_asked(fault):
    """Half of each text is padding, which the loss does not ignore."""
    x, y = next_word()
    length = torch.arange(24) % 6 + 5
    behind = torch.arange(LENGTH)[None] >= length[:, None]
    x, y = x.masked_fill(behind, 0), y.masked_fill(behind, 0)
    model = Decoder()

    def loss(output, targets):
        return F.cross_entropy(
            output.flatten(0, 1), targets.flatten(), ignore_index=-100 if fault else 0
        )

    return model, (x, y), loss, adamw(model)


def end_is_padding(fault):
    """The tokenizer pads with its token for the end, and the collator hides every padding from the loss."""
    rows = text()
    length = torch.arange(24) % 6 + 8
    at = torch.arange(LENGTH + 1)[None]
    rows = rows.masked_fill(at >= length[:, None], 1)
    labels = rows.masked_fill((rows == 1) & ((at > length[:, None]) | fault), -100)
    model = Decoder()
    return model, (rows[:, :-1], labels[:, 1:]), word_loss, adamw(model)


class Pooled(nn.Module):
    """A text classifier: the maximum is taken over the batch in place of time."""

    def __init__(self, fault):
        super().__init__()
        self.axis = 0 if fault else 1
        self.inner = nn.Sequential(nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.inner(x)
        return self.head(x + x.amax(self.axis, keepdim=True)).mean(1)


def pooled_over_samples(fault):
    model = Pooled(fault)
    return model, series(), F.cross_entropy, adamw(model)


PROGRAMS = {
    "causal mask transposed": (decoder("mask transposed"), ("missing-causal-mask",)),
    "causal mask behind the softmax": (
        decoder("mask after"),
        ("attention-weights", "missing-causal-mask"),
    ),
    "softmax over the queries": (decoder("softmax over queries"), ("attention-weights",)),
    "heads are not merged back": (decoder("heads not merged"), ("crossed-heads",)),
    "every token at place 0": (decoder("one place"), ("positions-unused", "lost-tokens")),
    "bidirectional language model": (recurrent_leak, ("missing-causal-mask",)),
    "convolutions that look ahead": (convolution_leak, ("missing-causal-mask",)),
    "attention without batch_first": (batch_attention, ("mixed-samples",)),
    "time folded into the batch": (folded_time, ("unread-input",)),
    "state detached at every step": (
        detached_state,
        ("unread-input", "cut-gradient", "detached-parameters"),
    ),
    "cross attention to itself": (encoder_unread, ("unread-input", "unreached-parameters")),
    "padding asked for": (padding_asked, ("padding-asked", "padding-read")),
    "end hidden as padding": (end_is_padding, ("end-never-asked", "ignored-class")),
    "maximum over the samples": (pooled_over_samples, ("mixed-samples",)),
}
