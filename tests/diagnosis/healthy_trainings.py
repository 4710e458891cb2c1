"""Twenty-nine trainings that work, of many kinds: shallow, recurrent, tabular, odd losses, odd heads.

Each is what `diagnose` is given: model, batch, options. The first six were false alarms once. Nothing
here knows the rules.
"""

from functools import partial

import torch
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from torch import nn

from bathyscope import nets
from tests.diagnosis.networks import Encoder, HandMadeViT, ResidualMLP, batch
from tests.diagnosis.posted_faults import TokenModel, adam, case, digits, mlp, next_tokens, sgd


def adamw(lr):
    return lambda model: torch.optim.AdamW(model.parameters(), lr=lr)


class Recurrent(nn.Module):
    """Rows of pixels as a sequence, the last state classified."""

    def __init__(self, kind=nn.LSTM, width=32):
        super().__init__()
        self.cell = kind(8, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.cell(x.reshape(-1, 8, 8))[0][:, -1])


class Convnet(nn.Module):
    """As written in tutorials: functional activations and pooling."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.one(x)), 2)
        x = F.max_pool2d(F.relu(self.two(x)), 2)
        return self.fc2(F.dropout(F.relu(self.fc1(x.flatten(1))), 0.3, self.training))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.ReLU(), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class TwoHeads(nn.Module):
    """A class and a number from one body."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.label, self.sum = nn.Linear(48, 10), nn.Linear(48, 1)

    def forward(self, x):
        x = self.body(x)
        return self.label(x), self.sum(x)


def both(output, targets):
    return F.cross_entropy(output[0], targets[0]) + F.mse_loss(output[1], targets[1])


def both_targets():
    x, y = digits()
    return x, (y, x.mean(1, keepdim=True))


def table(load, *, number=False, single=False):
    loaded = load()
    x = torch.tensor(loaded.data).float()
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(loaded.target)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:64]
    if number:
        y = ((y - y.mean()) / y.std()).float().unsqueeze(1)
    if single:
        y = y.float().unsqueeze(1)
    return x[rows], y[rows]


def zero_started():
    model = ResidualMLP(8)
    nn.init.zeros_(model.head[1].weight)
    return model


def unit_pixels():
    x, y = digits()
    return (x - x.min()) / (x.max() - x.min()), y


def several_labels():
    x, y = digits()
    return x, torch.stack([y > 4, y % 2 == 0, y % 3 == 0], 1).float()


def spectral():
    model = mlp()
    for at in (0, 2, 4):
        nn.utils.parametrizations.spectral_norm(model[at])
    return model


def masked_tokens():
    x, y = next_tokens()
    y = y.clone()
    y[:, ::2] = -100
    return x, y


def poisson_counts():
    x, _ = digits()
    return x, torch.poisson(x.abs().sum(1, keepdim=True) / 10)


def smooth(output, targets):
    return F.cross_entropy(output, targets, label_smoothing=0.1)


def catalog(name):
    return nets.build(name, in_channels=1)


HEALTHY = {
    "log-softmax and cross-entropy": lambda: case(mlp(nn.LogSoftmax(1))),
    "small GPT at AdamW 5e-4": lambda: case(TokenModel(4), next_tokens(), optimizer=adamw(5e-4)),
    "pre-norm encoder of 12 at 1e-2": lambda: case(Encoder(12), batch(3), optimizer=adamw(1e-2)),
    "LSTM head": lambda: case(Recurrent(), optimizer=adam),
    "regression head of one output": lambda: case(
        mlp(inputs=10, outputs=1), table(load_diabetes, number=True), loss=F.mse_loss),
    "zero-started head": lambda: case(zero_started(), batch(3)),
    "log-softmax and NLL": lambda: case(mlp(nn.LogSoftmax(1)), loss=nn.NLLLoss()),
    "sigmoid and BCE": lambda: case(
        mlp(nn.Sigmoid(), inputs=30, outputs=1), table(load_breast_cancer, single=True), loss=nn.BCELoss()),
    "one logit and BCEWithLogits": lambda: case(
        mlp(inputs=30, outputs=1), table(load_breast_cancer, single=True), loss=nn.BCEWithLogitsLoss()),
    "several labels": lambda: case(mlp(outputs=3), several_labels(), loss=nn.BCEWithLogitsLoss()),
    "wine": lambda: case(mlp(inputs=13, outputs=3), table(load_wine)),
    "iris": lambda: case(mlp(inputs=4, outputs=3, width=16), table(load_iris)),
    "tanh network": lambda: case(mlp(activation=nn.Tanh)),
    "two sigmoid layers": lambda: case(mlp(activation=nn.Sigmoid)),
    "logistic regression": lambda: case(nn.Sequential(nn.Linear(64, 10))),
    "tutorial convnet": lambda: case(Convnet(), batch(3)),
    "pixels from 0 to 1": lambda: case(mlp(), unit_pixels()),
    "GRU": lambda: case(Recurrent(nn.GRU)),
    "autoencoder": lambda: case(Autoencoder(), (digits()[0], digits()[0]), loss=F.mse_loss),
    "two outputs": lambda: case(TwoHeads(), both_targets(), loss=both),
    "spectral norm everywhere": lambda: case(spectral()),
    "masked tokens": lambda: case(TokenModel(2), masked_tokens(), optimizer=adamw(1e-3)),
    "label smoothing": lambda: case(mlp(), loss=smooth),
    "smooth L1": lambda: case(
        mlp(inputs=10, outputs=1), table(load_diabetes, number=True), loss=nn.SmoothL1Loss()),
    "Poisson counts": lambda: case(
        mlp(outputs=1), poisson_counts(), loss=partial(F.poisson_nll_loss, log_input=True)),
    "dropout 0.5": lambda: case(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))),
    "hand-made ViT": lambda: case(HandMadeViT(6), batch(3), optimizer=adamw(1e-3)),
    "wide ResNet": lambda: case(catalog("wrn-16-2"), batch(3, 16), optimizer=lambda m: sgd(m, 0.1)),
    "preresnet-29 with SGD": lambda: case(
        catalog("preresnet-29"), batch(3, 16), optimizer=lambda m: sgd(m, 0.1, weight_decay=1e-4)),
}  # fmt: skip
