"""Forty slips of newcomers, written down before their hints: one clear sentence with what to do about it.

Each row is a call as people write it, and what its sentence must say. Nothing here is an odd model; see
`test_bad_input` for arguments of the wrong type.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bathyscope as bs
from bathyscope.cli.build import loss_of
from bathyscope.core.errors import BathyscopeError, UsageError
from tests.unchecked import unchecked

X, Y = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4
IMAGES = torch.rand(8, 3, 6, 6)


def mlp(outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


class Wrapped(nn.Module):
    """A network that puts its logits into something."""

    def __init__(self, wrap):
        super().__init__()
        self.net, self.wrap = mlp(), wrap

    def forward(self, x):
        return self.wrap(self.net(x))


class Output:
    """As transformers' outputs are."""

    def __init__(self, logits):
        self.logits, self.loss = logits, None


def frozen() -> nn.Module:
    return mlp().requires_grad_(False)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


def found(model: nn.Module) -> None:
    """Raise the first finding's advice: this slip is answered by a finding, not by an error."""
    raise UsageError(str(bs.diagnose(model, X, Y).findings[0].remedy))


def raised(output, targets):
    return F.cross_entropy(output, targets).item()


SLIPS = {
    "float labels": (lambda: bs.diagnose(mlp(), X, Y.float()), r"\.long\(\)"),
    "uint8 images": (
        lambda: bs.diagnose(convolutional(), (255 * IMAGES).to(torch.uint8), Y),
        r"\.float\(\) / 255",
    ),
    "numbers under cross-entropy": (
        lambda: bs.diagnose(mlp(1), X, torch.randn(8, 1)),
        r'loss="mse"',
    ),
    "flat numbers under cross-entropy": (
        lambda: bs.diagnose(mlp(1), X, torch.randn(8)),
        r'loss="mse"',
    ),
    "two classes, one output": (
        lambda: bs.diagnose(mlp(1), X, torch.randint(2, (8,))),
        r'two outputs.*loss="bce"',
    ),
    "float64 model": (lambda: bs.diagnose(mlp().double(), X, Y), r"model\.float\(\)"),
    "float64 inputs": (lambda: bs.diagnose(mlp(), X.double(), Y), r"\.float\(\)"),
    "loss 'none'": (lambda: bs.diagnose(mlp(), X, Y, loss="none"), r"loss=None"),
    "loss's class": (
        lambda: bs.diagnose(mlp(), X, Y, loss=nn.CrossEntropyLoss),
        r"CrossEntropyLoss\(\)",
    ),
    "loss misspelled": (lambda: bs.diagnose(mlp(), X, Y, loss="crossentropy"), "cross-entropy"),
    "loss computed already": (
        lambda: bs.diagnose(mlp(), X, Y, loss=F.cross_entropy(mlp()(X), Y)),
        "a function of output and targets.*loss=F.cross_entropy",
    ),
    "one-hot whole numbers": (lambda: bs.diagnose(mlp(), X, F.one_hot(Y, 4)), r"argmax\(1\)"),
    "labels in a column": (lambda: bs.diagnose(mlp(), X, Y[:, None]), r"squeeze\(1\)"),
    "labels from one": (lambda: bs.diagnose(mlp(3), X, 1 + Y % 3), r"0 to 2.*subtract 1"),
    "labels of numpy": (lambda: bs.diagnose(mlp(), X, Y.numpy()), r"torch\.as_tensor"),
    "inputs of numpy": (lambda: bs.diagnose(mlp(), X.numpy(), Y), r"torch\.as_tensor"),
    "inputs in lists": (lambda: bs.diagnose(mlp(), X.tolist(), Y), r"torch\.as_tensor"),
    "inputs alone": (lambda: bs.diagnose(mlp(), X), r"diagnose\(model, x, y\)"),
    "a data set": (lambda: bs.diagnose(mlp(), TensorDataset(X, Y)), r"DataLoader\(dataset"),
    "an empty loader": (
        lambda: bs.diagnose(mlp(), DataLoader(TensorDataset(X[:0], Y[:0]))),
        "is empty",
    ),
    "a triple": (lambda: bs.diagnose(mlp(), (X, X, Y)), r"\(\(a, b\), targets\)"),
    "the model's class": (lambda: bs.diagnose(Wrapped, X, Y), r"Wrapped\(\)"),
    "the output as model": (lambda: bs.diagnose(mlp()(X), Y), "Module, but a Tensor"),
    "the weights as model": (lambda: bs.diagnose(mlp().state_dict(), X, Y), "load_state_dict"),
    "optimizer's class": (
        lambda: bs.diagnose(mlp(), X, Y, optimizer=torch.optim.Adam),
        r"model\.parameters\(\)",
    ),
    "another model's optimizer": (
        lambda: bs.diagnose(mlp(), X, Y, optimizer=torch.optim.SGD(mlp().parameters(), lr=0.1)),
        "none of the model's",
    ),
    "channels last": (
        lambda: bs.diagnose(convolutional(), IMAGES.permute(0, 2, 3, 1), Y),
        r"permute\(0, 3, 1, 2\)",
    ),
    "images into an MLP": (
        lambda: bs.diagnose(mlp(), torch.randn(8, 1, 2, 3), Y),
        r"Flatten|flatten\(1\)",
    ),
    "fewer targets than inputs": (lambda: bs.diagnose(mlp(), X, Y[:5]), "8 samples.* 5"),
    "float tokens": (
        lambda: bs.diagnose(nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 4)), X.abs(), Y),
        r"\.long\(\)",
    ),
    "everything frozen": (lambda: found(frozen()), r"requires_grad_\(True\)"),
    "a loss for each sample": (
        lambda: bs.diagnose(mlp(), X, Y, loss=nn.CrossEntropyLoss(reduction="none")),
        "reduction='mean'",
    ),
    "a loss as a number": (lambda: bs.diagnose(mlp(), X, Y, loss=raised), r"\.item\(\)"),
    "a batch of one": (lambda: bs.diagnose(normed(), X[:1], Y[:1]), "larger batch"),
    "bce in a row": (
        lambda: bs.diagnose(mlp(1), X, (Y > 1).float(), loss="bce"),
        r"unsqueeze\(1\)",
    ),
    "bce of whole numbers": (
        lambda: bs.diagnose(mlp(1), X, (Y > 1)[:, None].long(), loss="bce"),
        r"\.float\(\)",
    ),
    "logits in a tuple": (
        lambda: bs.diagnose(Wrapped(lambda x: (x, x)), X, Y),
        r"loss=lambda .*\[0\]",
    ),
    "logits in an output": (
        lambda: bs.diagnose(Wrapped(Output), X, Y),
        r"loss=lambda .*\.logits",
    ),
    "own loss without labels": (
        lambda: bs.diagnose(Wrapped(Output), {"x": X}, loss=None),
        "labels=",
    ),
    "loss none on the command line": (
        lambda: bs.diagnose(mlp(), X, Y, loss=loss_of("none")),
        "carries none; pass loss=",
    ),
}

FURTHER = {
    "treat without a diagnosis": (lambda: bs.treat(mlp()), r"bs\.diagnose\(model, x, y"),
    "treat with a batch": (lambda: bs.treat(mlp(), X, Y), r"bs\.diagnose\(model, x, y"),
    "forecast of inputs alone": (lambda: bs.forecast(mlp(), X), r"\(inputs, targets\)"),
    "a code with a space": (lambda: bs.explain("exploding gradient"), "exploding-gradient"),
    "a network of other people's name": (lambda: bs.nets.build("resnet18"), "resnet-20|resnet-N"),
    "a depth that does not exist": (lambda: bs.nets.build("resnet-21"), r"6n \+ 2|6n\+2|resnet-20"),
    "a page without ending": (lambda: bs.diagnose(mlp(), X, Y).save("report"), r"\.html"),
    "a quantity by another name": (
        lambda: bs.diagnose(mlp(), X, Y).plot("gradient"),
        "gradient norm ratio|gradient_norm_ratio|gradients",
    ),
    "a learning rate alone": (lambda: bs.diagnose(mlp(), X, Y, lr=0.1), r"optimizer="),
    "labels as strings": (
        lambda: bs.diagnose(mlp(), X, ["cat", "dog"] * 4),
        "number|whole|integer",
    ),
    "names that forward does not take": (
        lambda: bs.diagnose(mlp(), {"pixels": X, "labels": Y}),
        "pixels",
    ),
    "watch an optimizer": (
        lambda: bs.watch(torch.optim.SGD(mlp().parameters(), lr=0.1)),
        r"bs\.watch\(model|watch\(model\)",
    ),
    "numbers squeezed under cross-entropy": (
        lambda: bs.diagnose(Wrapped(lambda x: x.sum(1)), X, torch.randn(8)),
        r'one number for each sample.*loss="mse"',
    ),
    "two classes squeezed": (
        lambda: bs.diagnose(Wrapped(lambda x: x.sum(1)), X, (Y > 1).float()),
        r'one number for each sample.*loss="bce"',
    ),
    "parameters as optimizer": (
        lambda: bs.diagnose(mlp(), X, Y, optimizer=mlp().parameters()),
        r"torch\.optim",
    ),
    "probes misspelled": (lambda: bs.diagnose(mlp(), X, Y, probes="all"), "standard.*full"),
    "targets first in the loss": (
        lambda: bs.diagnose(
            mlp(), X, Y, loss=lambda targets, output: F.cross_entropy(output, targets)
        ),
        "output.*(first|before)|(output, targets)",
    ),
}
"""Seventeen more, written down later and likewise before their hints."""


@pytest.mark.parametrize("name", SLIPS | FURTHER)
def test_one_sentence_with_the_hint(name):
    call, hint = (SLIPS | FURTHER)[name]
    torch.manual_seed(0)
    with unchecked(), pytest.raises(BathyscopeError) as caught:
        call()
    text = str(caught.value)
    assert re.search(hint, text), text
    assert "\n" not in text
    assert len(text) < 500, text


def test_there_are_forty_and_seventeen():
    assert len(SLIPS) == 40
    assert len(FURTHER) == 17
