"""Thirteen more, written after the rules for the others, and committed before any of them was diagnosed."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.loops import unseen
from tests.loops.language import WORDS, sentences
from tests.loops.tasks import Train, batches, digits, held_out_loss, mlp
from tests.loops.unseen import score

PROGRAMS: dict[str, tuple[Train, tuple[str, ...]]] = {}


def program(*codes: str):
    return unseen.program(*codes, programs=PROGRAMS)


@program("gradients-not-cleared")
def the_first_optimizer_is_cleared_twice(fault, seed):
    """Body and head have an optimizer each; a copied line clears that of the head twice."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    of_head = torch.optim.SGD(model[2].parameters(), lr=0.1)
    of_body = torch.optim.SGD(model[0].parameters(), lr=0.1)
    for images, labels in batches(200, 32, x, y):
        of_head.zero_grad()
        (of_head if fault else of_body).zero_grad()  # the fault
        F.cross_entropy(model(images), labels).backward()
        of_head.step()
        of_body.step()
    return score(model)


@program("gradients-not-cleared")
def cleared_once_an_epoch(fault, seed):
    """zero_grad stands before the loop over the batches."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(5):
        optimizer.zero_grad()
        for images, labels in loader:
            if not fault:  # the fault
                optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return score(model)


@program("scrambled-outputs", "output-misfit")
def logits_viewed_as_rows(fault, seed):
    """A convolution over time gives (batch, class, time), and view takes it for rows of classes."""
    model = nn.Sequential(nn.Embedding(WORDS, 24), Turn(), nn.Conv1d(24, WORDS, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        tokens = sentences(16)
        logits, labels = model(tokens), (5 * tokens + 3) % WORDS
        if not fault:  # the fault
            logits = logits.transpose(1, 2)
        optimizer.zero_grad()
        F.cross_entropy(logits.reshape(-1, WORDS), labels.reshape(-1)).backward()
        optimizer.step()
    with torch.no_grad():
        tokens = sentences(128)
        return float(F.cross_entropy(model(tokens), (5 * tokens + 3) % WORDS)) + 0.01


class Turn(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Ordered(nn.Module):
    """A transformer that says which of two words comes first."""

    def __init__(self, *, has_places):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.place = nn.Parameter(0.5 * torch.randn(10, 32)) if has_places else None
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.layer, self.head = layer, nn.Linear(32, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x if self.place is None else x + self.place
        return self.head(self.layer(x).mean(1))


@program("positions-unused")
def transformer_without_places(fault, seed):
    """The positions were forgotten: the order of the words cannot be seen."""
    model = Ordered(has_places=not fault)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def sample(num):
        tokens = torch.randint(2, WORDS, (num, 10))
        first = torch.randint(0, 5, (num,))
        second = torch.randint(5, 10, (num,))
        label = torch.randint(2, (num,))
        rows = torch.arange(num)
        tokens[rows, first], tokens[rows, second] = label, 1 - label
        return tokens, label

    for _ in range(200):
        tokens, label = sample(64)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), label).backward()
        optimizer.step()
    torch.manual_seed(99)
    return held_out_loss(model, *sample(500))


class Masked(nn.Module):
    """Attention by hand over padded texts."""

    def __init__(self, *, sign):
        super().__init__()
        self.embed, self.sign = nn.Embedding(33, 32), sign
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(32, 4)

    def forward(self, tokens):
        x = self.embed(tokens)
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 32**0.5
        scores = scores + self.sign * 1e9 * (tokens == 0).float()[:, None]
        return self.head((scores.softmax(2) @ self.v(x))[:, 0])


@program("padding-read", "unread-input")
def mask_of_the_wrong_sign(fault, seed):
    """The mask adds 1e9 to the scores of the padding in place of taking it away."""
    model = Masked(sign=1.0 if fault else -1.0)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def texts(num):
        labels = torch.randint(4, (num,))
        own = 1 + 8 * labels[:, None] + torch.randint(8, (num, 12))
        tokens = torch.where(torch.rand(num, 12) < 0.4, own, 1 + torch.randint(32, (num, 12)))
        length = torch.randint(4, 12, (num, 1))
        return torch.where(torch.arange(12) < length, tokens, 0), labels

    for _ in range(150):
        tokens, labels = texts(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    torch.manual_seed(99)
    return held_out_loss(model, *texts(800))


class Translator(nn.Module):
    """Reads a sentence and writes it again, the words renamed."""

    def __init__(self, *, passes_on):
        super().__init__()
        self.embed, self.before = nn.Embedding(WORDS, 24), nn.Embedding(WORDS + 1, 24)
        self.reader = nn.GRU(24, 48, batch_first=True)
        self.writer, self.head = nn.GRU(24, 48, batch_first=True), nn.Linear(48, WORDS)
        self.passes_on = passes_on

    def forward(self, tokens, written):
        _, state = self.reader(self.embed(tokens))
        state = state if self.passes_on else None
        return self.head(self.writer(self.before(written), state)[0])


@program("unreached-parameters", "unread-input")
def state_is_not_passed_on(fault, seed):
    """The decoder begins from zeros: what the encoder has read is lost."""
    model = Translator(passes_on=not fault)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_of(num):
        tokens = torch.randint(WORDS, (num, 3))
        wanted = (tokens + 1) % WORDS
        written = torch.cat([torch.full((num, 1), WORDS), wanted[:, :-1]], 1)
        return F.cross_entropy(model(tokens, written).flatten(0, 1), wanted.flatten())

    for _ in range(200):
        optimizer.zero_grad()
        loss_of(32).backward()
        optimizer.step()
    with torch.no_grad():
        return float(loss_of(500))


@program("clipped-output", "unreachable-targets", "output-misfit")
def sigmoid_on_standardized_pixels(fault, seed):
    """An autoencoder ends in a sigmoid, and its images are standardized: half of them lie below zero."""
    x, _, test_x, _ = digits()
    layers = [nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)]
    model = nn.Sequential(*layers, nn.Sigmoid()) if fault else nn.Sequential(*layers)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for (images,) in batches(200, 32, x):
        optimizer.zero_grad()
        F.mse_loss(model(images), images).backward()
        optimizer.step()
    with torch.no_grad():
        return float(F.mse_loss(model(test_x), test_x))


@program("unscaled-input")
def one_column_in_millions(fault, seed):
    """A table of standardized columns, and one that was forgotten: a price in the hundreds of thousands."""
    model = mlp(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def sample(num):
        table = torch.randn(num, 8)
        wanted = table[:, 0] * table[:, 1] + table[:, 2] - table[:, 7]
        if fault:  # the fault
            table = torch.cat([table[:, :7], 3e5 + 1e5 * table[:, 7:]], 1)
        return table, wanted

    for _ in range(250):
        table, wanted = sample(64)
        optimizer.zero_grad()
        F.mse_loss(model(table)[:, 0], wanted).backward()
        optimizer.step()
    with torch.no_grad():
        table, wanted = sample(800)
        return float(F.mse_loss(model(table)[:, 0], wanted))


@program("validation-in-train-mode")
def validation_without_eval(fault, seed):
    """model.eval() is missing: what the validation reports has half of its units dropped."""
    x, y, test_x, test_y = digits()
    layers = [nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.5), nn.Linear(96, 96), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Dropout(0.5), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    last = 0.0
    for _ in range(6):
        model.train()
        for images, labels in batches(25, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if not fault:  # the fault
            model.eval()
        with torch.no_grad():
            last = float(F.cross_entropy(model(test_x), test_y))
    return last


@program("small-update", "small-budget", "schedule-of-rates")
def lambda_gives_the_rate_itself(fault, seed):
    """LambdaLR wants a factor and gets the rate: the rate is the square of what was meant."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    first = 0.01 if fault else 1.0  # the fault
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: first * 0.995**step)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        schedule.step()
    return score(model)


@program("still-statistics", "frozen-statistics", "statistics-of-the-start")
def average_with_the_statistics_of_the_start(fault, seed):
    """Weights are averaged and buffers are not: the batch norms of the average have seen nothing."""
    x, y, test_x, test_y = digits()
    x, test_x = 3 * x + 4, 3 * test_x + 4
    body = [nn.BatchNorm1d(64), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()]
    model = nn.Sequential(*body, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    average = copy.deepcopy(model).requires_grad_(False)
    for step, (images, labels) in enumerate(batches(150, 48, x, y), 1):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(p, 0.1)
            if not fault:  # the fault
                for mean, b in zip(average.buffers(), model.buffers(), strict=True):
                    mean.copy_(b)
        if step % 25 == 0:
            average.eval()
            with torch.no_grad():
                average(test_x)
    return held_out_loss(average, test_x, test_y)


@program("ignored-class")
def end_is_masked_with_the_padding(fault, seed):
    """The end of a text has the number of the padding: where the loss leaves out one, it leaves out both."""
    torch.manual_seed(seed)
    table = nn.Embedding(WORDS + 2, 32)
    cell, head = nn.GRU(32, 48, batch_first=True), nn.Linear(48, WORDS + 2)
    model = nn.ModuleList([table, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    end, padding = WORDS, WORDS + 1

    def texts(num, pad):
        tokens = sentences(num, 12)
        length = torch.randint(4, 11, (num, 1))
        place = torch.arange(12)
        return torch.where(place < length, tokens, torch.where(place == length, end, pad))

    def logits(tokens):
        return head(cell(table(tokens))[0])

    pad = end if fault else padding  # the fault
    for _ in range(150):
        tokens = texts(32, pad)
        optimizer.zero_grad()
        given, wanted = tokens[:, :-1], tokens[:, 1:].flatten()
        F.cross_entropy(logits(given).flatten(0, 1), wanted, ignore_index=pad).backward()
        optimizer.step()
    with torch.no_grad():
        tokens = texts(300, padding)
        wanted = tokens[:, 1:].flatten()
        given = tokens[:, :-1].clamp_max(end) if fault else tokens[:, :-1]
        return float(F.cross_entropy(logits(given).flatten(0, 1), wanted, ignore_index=padding))


@program("non-finite", "turns-non-finite", "half-underflow")
def half_precision_with_the_usual_epsilon(fault, seed):
    """The whole network is float16, in which Adam's epsilon of 1e-8 is zero."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10).to(torch.float16 if fault else torch.float32)  # the fault
    kind = next(model.parameters()).dtype
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images.to(kind)).float(), labels).backward()
        optimizer.step()
    value = score(model.float())
    return value if value == value else 50.0
