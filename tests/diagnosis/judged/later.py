"""A second set of programs, written after the first had been tuned on, and scored before this one was."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.diagnosis.judged.sequences import (
    LENGTH,
    WIDTH,
    WORDS,
    adamw,
    next_word,
    series,
    text,
    word_loss,
)
from tests.diagnosis.judged.vision import adam, convnet, digits, mlp, rows


class NormOverTime(nn.Module):
    """A causal language model whose norms run over positions and features together."""

    def __init__(self, fault):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        shape = (LENGTH, WIDTH) if fault else (WIDTH,)
        self.norms = nn.ModuleList(nn.LayerNorm(shape) for _ in range(3))
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + F.gelu(layer(F.pad(norm(x).transpose(1, 2), (2, 0)))).transpose(1, 2)
        return self.head(x)


def norm_over_time(fault):
    model = NormOverTime(fault)
    return model, next_word(), word_loss, adamw(model)


class Answering(nn.Module):
    """A recurrent decoder beside an encoder's last state."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        _, state = self.encoder(self.words(source))
        return self.head(self.decoder(self.words(target), state)[0])


def answers_as_inputs(fault):
    """The decoder is given the answers themselves, not those before them."""
    asked, answers = text(), text().flip(0)
    model = Answering()
    given = {"source": asked[:, :-4], "target": answers[:, 1:] if fault else answers[:, :-1]}
    return model, (given, answers[:, 1:]), word_loss, adamw(model)


class FirstOfCausal(nn.Module):
    """A classifier on a causal network that reads its first position."""

    def __init__(self, fault):
        super().__init__()
        self.at = 0 if fault else -1
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.body(self.words(tokens) + self.places, mask=mask, is_causal=True)
        return self.head(x[:, self.at])


def first_of_causal(fault):
    x, y = next_word()
    model = FirstOfCausal(fault)
    return model, (x, y[:, -1] % 3), F.cross_entropy, adamw(model)


class MaskedReader(nn.Module):
    """Attention with a mask of real tokens; `fault` says what goes wrong with it."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(WORDS, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, tokens, mask):
        x = self.words(tokens)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        if self.fault == "queries":
            scores = scores.masked_fill(~mask[:, :, None], -1e4)
        elif self.fault == "sign":
            scores = scores + 1e4 * (~mask[:, None, :]).float()
        else:
            scores = scores.masked_fill(~mask[:, None, :], -1e4)
        x = x + scores.softmax(-1) @ self.value(x)
        return self.head((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def masked(which):
    def program(fault):
        x, _ = next_word()
        length = torch.arange(24) % 8 + 6
        mask = torch.arange(LENGTH)[None] < length[:, None]
        model = MaskedReader(which if fault else "")
        given = {"tokens": x.masked_fill(~mask, 0), "mask": mask}
        return model, (given, x[:, 2] % 3), F.cross_entropy, adamw(model)

    return program


class Standardizing(nn.Module):
    """Standardizes its inputs with the mean and deviation of whatever batch comes."""

    def __init__(self, fault):
        super().__init__()
        self.axes, self.body = ((0, 1, 2, 3) if fault else (1, 2, 3)), convnet()

    def forward(self, x):
        mean, std = x.mean(self.axes, keepdim=True), x.std(self.axes, keepdim=True)
        return self.body((x - mean) / std)


def standardized_by_batch(fault):
    model = Standardizing(fault)
    return model, digits(), F.cross_entropy, adam(model)


class Experts(nn.Module):
    """One of four experts answers; the gate chooses by argmax, without its probability."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.gate = nn.Linear(12, 4)
        self.experts = nn.ModuleList(mlp() for _ in range(4))

    def forward(self, x):
        weights = self.gate(x).softmax(1)
        if self.fault:
            weights = F.one_hot(weights.argmax(1), 4).float()
        return (torch.cat([e(x) for e in self.experts], 1) * weights).sum(1)


def gate_without_gradient(fault):
    model = Experts(fault)
    return model, rows(), F.mse_loss, adam(model)


class PlainWeight(nn.Module):
    """A weight that is a plain tensor, not a parameter."""

    def __init__(self, fault):
        super().__init__()
        weight = 0.3 * torch.randn(12, 32)
        self.weight = weight.requires_grad_() if fault else nn.Parameter(weight)
        self.rest = nn.Sequential(
            nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0)
        )

    def forward(self, x):
        return self.rest(x @ self.weight)


def plain_weight(fault):
    model = PlainWeight(fault)
    return model, rows(), F.mse_loss, adam(model)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.value, self.sign = nn.Linear(32, 1), nn.Linear(32, 2)

    def forward(self, x):
        x = self.body(x)
        return self.value(x)[:, 0], self.sign(x)


def task_left_out(fault):
    """The second task's loss is computed and never added."""
    x, y = rows()
    model = TwoHeads()

    def loss(output, targets):
        value, sign = output
        error, doubt = F.mse_loss(value, targets), F.cross_entropy(sign, (targets > 0).long())
        return error if fault else error + doubt

    return model, (x, y), loss, adam(model)


def rare_positives_weigh_less(fault):
    """Multi-label targets of 10 %: the weight of positives is the frequency, not its inverse."""
    x, y = digits(128)
    many = F.one_hot(y, 10).float()
    weight = many.mean(0) / (1 - many.mean(0))
    model = convnet()

    def loss(output, targets):
        return F.binary_cross_entropy_with_logits(
            output, targets, pos_weight=weight if fault else (1 / weight).clamp(max=20)
        )

    return model, (x, many), loss, adam(model)


def scaled_down_twice(fault):
    x, y = digits()
    x = (x - x.min()) / (x.max() - x.min())
    model = nn.Sequential(nn.Flatten(), mlp(inputs=64, outputs=10))
    return model, (x / 255 if fault else x, y), F.cross_entropy, adam(model)


def unknown_words(fault):
    """Nearly every word is unknown to the vocabulary, and has the same number."""
    x, y = next_word()
    known = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.02
    model = FirstOfCausal(fault=False)
    return (
        model,
        (torch.where(known, x, 1) if fault else x, y[:, -1] % 3),
        F.cross_entropy,
        adamw(model),
    )


def group_at_zero(fault):
    """Two groups of parameters; the body's learning rate is 0."""
    model = convnet()
    groups = [
        {"params": model[:6].parameters(), "lr": 0.0 if fault else 1e-3},
        {"params": model[6:].parameters(), "lr": 1e-3},
    ]
    return model, digits(), F.cross_entropy, torch.optim.Adam(groups)


def climbing(fault):
    model = convnet()
    return model, digits(), F.cross_entropy, adam(model, maximize=fault)


def biases_only(fault):
    """A filter on names leaves the weights out of the optimizer."""
    model = convnet()
    kept = [p for name, p in model.named_parameters() if not fault or "weight" not in name]
    return model, digits(), F.cross_entropy, torch.optim.Adam(kept, lr=1e-3)


def kept_taken_for_dropped(fault):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.97 if fault else 0.1),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.97 if fault else 0.1), nn.Linear(64, 10),
    )  # fmt: skip
    return model, digits(), F.cross_entropy, adam(model)


def classes_from_one(fault):
    """Two classes, numbered 1 and 2, under a loss for 0 and 1."""
    x, y = digits()
    model = nn.Sequential(nn.Flatten(), mlp(nn.Flatten(0), inputs=64))
    labels = (y > 4).float() + (1 if fault else 0)
    return model, (x, labels), F.binary_cross_entropy_with_logits, adam(model)


def softmax_over_rows(fault):
    """Segmentation: the log-softmax runs over the rows of the picture in place of the classes."""
    x, _ = digits()
    target = (x[:, 0] > 0).long() + (x[:, 0] > 1).long()

    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                nn.Conv2d(16, 3, 1),
            )  # fmt: skip

        def forward(self, x):
            return self.body(x).log_softmax(2 if fault else 1)

    model = Segmenter()
    return model, (x, target), F.nll_loss, adam(model)


def logits_reshaped(fault):
    """(samples, time, classes) is reshaped to (samples, classes, time)."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(6, WIDTH, batch_first=True), nn.Linear(WIDTH, 4)

        def forward(self, x):
            y = self.head(self.rnn(x)[0])
            return y.reshape(len(x), 4, -1) if fault else y.transpose(1, 2)

    x, _ = series()
    model = Tagger()
    tags = (x[:, :, 0] > 0).long() + 2 * (x[:, :, 1] > 0).long()
    return model, (x, tags), F.cross_entropy, adam(model)


def last_of_backward(fault):
    """The output of the first step of a recurrent layer is taken for the last."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(6, WIDTH, batch_first=True), nn.Linear(WIDTH, 4)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, 0 if fault else -1])

    model = Classifier()
    return model, series(), F.cross_entropy, adam(model)


def graph_cut(fault):
    """Features pass through numpy on their way to the head."""

    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
            self.head = nn.Linear(32, 1)

        def forward(self, x):
            x = self.body(x)
            if fault:
                x = torch.from_numpy(x.detach().numpy().copy())
            return self.head(x)[:, 0]

    model = Features()
    return model, rows(), F.mse_loss, adam(model)


PROGRAMS = {
    "norms over time": (norm_over_time, ("missing-causal-mask",)),
    "answers as the decoder's inputs": (
        answers_as_inputs,
        ("unshifted-labels", "missing-causal-mask"),
    ),
    "first position of a causal network": (first_of_causal, ("unread-input",)),
    "mask on the queries": (masked("queries"), ("padding-read",)),
    "mask with the wrong sign": (masked("sign"), ("padding-read", "unread-input")),
    "standardized by the batch": (standardized_by_batch, ("mixed-samples",)),
    "a gate without a gradient": (
        gate_without_gradient,
        ("detached-parameters", "unreached-parameters"),
    ),
    "a weight that is no parameter": (plain_weight, ("unlisted-parameters",)),
    "a task left out": (task_left_out, ("unreached-parameters",)),
    "rare positives weigh less": (rare_positives_weigh_less, ("frequent-classes-weigh-more",)),
    "scaled down twice": (scaled_down_twice, ("unscaled-input", "blank-input")),
    "unknown words": (
        unknown_words,
        ("one-token", "lost-tokens", "repeated-samples", "unread-input", "constant-columns"),
    ),
    "a group at learning rate 0": (
        group_at_zero,
        ("zero-learning-rate", "small-update", "frozen-parameters"),
    ),
    "climbing": (climbing, ("negated-loss", "overshooting-step")),
    "biases only": (biases_only, ("not-in-optimizer",)),
    "kept taken for dropped": (kept_taken_for_dropped, ("heavy-dropout",)),
    "classes from one": (classes_from_one, ("labels-out-of-range",)),
    "softmax over the rows": (softmax_over_rows, ("missing-logarithm", "output-misfit")),
    "logits reshaped": (logits_reshaped, ("scrambled-outputs",)),
    "first step for the last": (last_of_backward, ("unread-input",)),
    "the graph is cut": (graph_cut, ("cut-gradient", "detached-parameters")),
}
