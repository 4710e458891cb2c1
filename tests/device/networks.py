"""The networks of the matrix, each with a batch and a loss; without dropout, so that runs can be compared."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bathyscope as bs

PLACES = ["pretend:0", "pretend:1", "both", "default"]
"""Of the matrix; `default` is the second device under `torch.set_default_device`."""


@dataclass
class Case:
    """A network with what it is called on."""

    model: nn.Module
    batch: tuple[Tensor, Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]

    def to(self, device: str) -> "Case":
        """All of it on a device."""
        inputs, targets = self.batch
        return Case(self.model.to(device), (inputs.to(device), targets.to(device)), self.loss)


class Recurrent(nn.Module):
    """Two layers of LSTM, read at the last position."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])


class Encoder(nn.Module):
    """torch's own encoder, averaged over positions."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean(1))


def token_loss(output: Tensor, targets: Tensor) -> Tensor:
    """The loss of every next token."""
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def mlp() -> Case:
    """Four layers of ReLU."""
    sizes = [6, 12, 12, 12, 12]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(12, 4))
    return Case(model, (torch.randn(16, 6), torch.randint(4, (16,))), F.cross_entropy)


def resnet() -> Case:
    """resnet-20, narrow."""
    model = bs.nets.build("resnet-20", num_classes=4, width=4, seed=0)
    return Case(model, (torch.randn(8, 3, 8, 8), torch.randint(4, (8,))), F.cross_entropy)


def gpt() -> Case:
    """gpt-4, narrow, with its token table tied to the output or not as it is built."""
    model = bs.nets.build("gpt-4", width=16, vocabulary=20, context=8, seed=0)
    tokens = torch.randint(20, (4, 9))
    return Case(model, (tokens[:, :-1], tokens[:, 1:]), token_loss)


def encoder() -> Case:
    """nn.TransformerEncoder."""
    return Case(Encoder(), (torch.randn(8, 5, 8), torch.randint(4, (8,))), F.cross_entropy)


def lstm() -> Case:
    """nn.LSTM."""
    return Case(Recurrent(), (torch.randn(8, 5, 6), torch.randint(4, (8,))), F.cross_entropy)


CASES = {"mlp": mlp, "resnet-20": resnet, "gpt-4": gpt, "encoder": encoder, "lstm": lstm}


def case(name: str) -> Case:
    """The network of that name with its batch, on the CPU, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return CASES[name]()


def place(given: Case, where: str) -> Case:
    """The case on `pretend:0`, `pretend:1`, or with its second half on the second device (`both`)."""
    if where != "both":
        return given.to(where)
    split_(given.model, first="pretend:0", second="pretend:1")
    inputs, targets = given.batch
    return Case(given.model, (inputs.to("pretend:0"), targets.to("pretend:0")), given.loss)


def split_(model: nn.Module, *, first: str, second: str) -> None:
    """Put the later layers on a second device, and carry tensors over, as a device map does."""
    model.to(first)
    chain = list(model.children())
    while len(chain) < 2 or max(map(_size, chain)) > 0.9 * sum(map(_size, chain)):
        largest = max(chain, key=_size)
        at = chain.index(largest)
        inside = list(largest.children())
        if len(inside) < 2:
            break
        chain[at : at + 1] = inside
    half = len(chain) // 2
    for module in chain[half:]:
        module.to(second)
    for module in chain[:half]:  # a table that is tied to later weights has gone with them
        if any(p.device == torch.device(second) for p in module.parameters()):
            module.to(second)
    for module in chain:
        module.register_forward_pre_hook(_carry_inputs, with_kwargs=True)
    model.register_forward_hook(lambda _, args, output: _carry(output, first))


def _carry_inputs(module: nn.Module, args: object, kwargs: object) -> tuple[object, object]:
    own = next(module.parameters(), None)
    return (args, kwargs) if own is None else (_carry(args, own.device), _carry(kwargs, own.device))


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _carry(value: object, device: torch.device | str) -> object:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _carry(part, device) for key, part in value.items()}
    return tuple(_carry(part, device) for part in value) if isinstance(value, tuple) else value
