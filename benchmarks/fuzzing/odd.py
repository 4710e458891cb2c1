"""Odd models, each rebuilt from its number: what torch allows and few people think of."""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from benchmarks.fuzzing.layers import LAYERS, PARAMETRIZATIONS, network
from benchmarks.fuzzing.mlp import Mlp
from benchmarks.fuzzing.stateful import STATEFUL

Case = tuple[nn.Module, tuple[Any, Any], Callable[[Any, Any], Tensor]]


class Checkpointed(Mlp):
    """Its middle is computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def touch(self, x: Tensor) -> Tensor:
        """Checkpointed."""
        return checkpoint(torch.sin, x, use_reentrant=self.reentrant)


class FailsBackward(torch.autograd.Function):
    """Raises in its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """x."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Nothing but an error."""
        raise ValueError("no way back")


class Raises(Mlp):
    """Its backward pass fails."""

    def touch(self, x: Tensor) -> Tensor:
        """Fails on the way back."""
        return FailsBackward.apply(x)


class Random(Mlp):
    """Draws from every generator."""

    def touch(self, x: Tensor) -> Tensor:
        """Noise."""
        return x + 1e-3 * torch.randn_like(x) * random.random()


class Counts(Mlp):
    """Writes to a buffer and an attribute at every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))
        self.register_buffer("nothing", None)
        self.passes: Tensor

    def touch(self, x: Tensor) -> Tensor:
        """Counts."""
        self.passes += 1
        return x


class InPlace(Mlp):
    """Overwrites what it is given."""

    def touch(self, x: Tensor) -> Tensor:
        """Clamps in place."""
        return x.clamp_(-0.9, 0.9)

    def forward(self, x: Tensor) -> Any:
        """The input is scaled in place, too."""
        return super().forward(x.mul_(1.0))


class Detached(Mlp):
    """Half of it is out of the graph."""

    def touch(self, x: Tensor) -> Tensor:
        """Without a graph."""
        return x.detach()


class GivesDict(Mlp):
    """A mapping as output."""

    def forward(self, x: Tensor) -> Any:
        """Logits and something else."""
        out = super().forward(x)
        return {"logits": out, "mean": out.mean()}


class Pair(NamedTuple):
    """A named tuple as output."""

    logits: Tensor
    size: int


class GivesPair(Mlp):
    """A named tuple as output."""

    def forward(self, x: Tensor) -> Any:
        """Logits and a number."""
        return Pair(super().forward(x), 3)


class NamedInputs(Mlp):
    """Inputs by name."""

    def forward(self, *, a: Tensor, b: Tensor) -> Any:  # type: ignore[override]
        """Their sum goes in."""
        return super().forward(a + b)


class Uncopyable(Mlp):
    """Holds what cannot be copied or pickled."""

    def __init__(self) -> None:
        super().__init__()
        import threading

        self.lock = threading.Lock()


class Tied(nn.Module):
    """One weight used as embedding and head."""

    def __init__(self, max_norm: float | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(3, 6, max_norm=max_norm)
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the same words."""
        x = torch.tanh(self.inner(self.embed(x).mean(dim=1)))
        return F.linear(x, self.embed.weight)


class Listed(nn.Module):
    """Containers of every kind, and bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.list = nn.ModuleList([nn.Linear(4, 4), nn.Identity(), nn.Sequential()])
        self.dict = nn.ModuleDict({"a": nn.Linear(4, 3)})
        self.bare = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.tensor(2.0))])
        self.empty = nn.Parameter(torch.zeros(0, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Through all of them."""
        for module in self.list:
            x = torch.tanh(module(x)) * self.bare[0]
        return self.dict["a"](x) * self.bare[1] + self.empty.sum()


class ComplexInside(nn.Module):
    """A complex weight between real ends."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)
        self.turn = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        """Real outputs."""
        return self.last((self.first(x).to(torch.complex64) @ self.turn).abs())


def _classified(x: Any) -> tuple[Any, Tensor]:
    return x, torch.tensor([0, 1, 2, 0])


def _mlp(model: nn.Module) -> tuple[nn.Module, Any]:
    return model, _classified(torch.randn(4, 4))


def _weights(change: Callable[[Tensor], Tensor]) -> nn.Module:
    model = Mlp()
    model.inner.weight = nn.Parameter(change(model.inner.weight.detach()))
    return model


def _sparse() -> nn.Module:
    model = Mlp()
    model.extra = nn.Parameter(torch.eye(3).to_sparse())
    return model


def _inference() -> nn.Module:
    with torch.inference_mode():
        return Mlp()


def _hooked(kind: str) -> nn.Module:
    model = Mlp()
    if kind == "forward":
        model.inner.register_forward_hook(lambda m, a, o: o * 1.0)
    elif kind == "pre":
        model.inner.register_forward_pre_hook(lambda m, a: (a[0] * 1.0,))
    elif kind == "backward":
        model.inner.register_full_backward_hook(lambda m, i, o: None)
    elif kind == "tensor":
        model.inner.weight.register_hook(lambda g: g * 1.0)
    elif kind == "fails backward":

        def fail(module: nn.Module, inputs: Any, outputs: Any) -> None:
            raise ValueError("a hook of the user's")

        model.inner.register_full_backward_hook(fail)
    else:

        def refuse(module: nn.Module, inputs: Any) -> None:
            raise ValueError("a hook of the user's")

        model.inner.register_forward_pre_hook(refuse)
    return model


def _frozen(part: bool) -> nn.Module:
    model = Mlp()
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(part and index > 1)
    return model


def _chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), *layers, nn.Linear(6, 3))


def _scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)))


def _traced_inside() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.Linear(4, 4), torch.jit.trace(nn.Linear(4, 3), torch.randn(2, 4)))


ODD: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "plain": lambda: _mlp(Mlp()),
    "one layer": lambda: _mlp(nn.Linear(4, 3)),
    "deep chain": lambda: _mlp(
        _chain(*[nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)) for _ in range(9)])
    ),
    "batch norm": lambda: _mlp(_chain(nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5))),
    "batch norm without statistics": lambda: _mlp(
        _chain(nn.BatchNorm1d(6, track_running_stats=False))
    ),
    "checkpointed": lambda: _mlp(Checkpointed(False)),
    "checkpointed, re-entrant": lambda: _mlp(Checkpointed(True)),
    "fails backward": lambda: _mlp(Raises()),
    "random": lambda: _mlp(Random()),
    "counts": lambda: _mlp(Counts()),
    "in place": lambda: _mlp(InPlace()),
    "detached": lambda: _mlp(Detached()),
    "gives a mapping": lambda: _mlp(GivesDict()),
    "gives a named tuple": lambda: _mlp(GivesPair()),
    "named inputs": lambda: (
        NamedInputs(),
        _classified({"a": torch.randn(4, 4), "b": torch.randn(4, 4)}),
    ),
    "cannot be copied": lambda: _mlp(Uncopyable()),
    "tied": lambda: (Tied(), _classified(torch.randint(0, 3, (4, 5)))),
    "bounded embedding": lambda: (Tied(0.5), _classified(torch.randint(0, 3, (4, 5)))),
    "containers": lambda: _mlp(Listed()),
    "complex inside": lambda: _mlp(ComplexInside()),
    "complex": lambda: _mlp(Mlp().to(torch.complex64)),
    "lazy": lambda: _mlp(nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.LazyLinear(3))),
    "lazy buffers": lambda: _mlp(_chain(nn.LazyBatchNorm1d(affine=False))),
    "meta": lambda: _mlp(Mlp().to("meta")),
    "sparse": lambda: _mlp(_sparse()),
    "inference": lambda: _mlp(_inference()),
    "scripted": lambda: _mlp(_scripted()),
    "traced inside": lambda: _mlp(_traced_inside()),
    "data parallel": lambda: _mlp(nn.DataParallel(Mlp())),
    "compiled": lambda: _mlp(torch.compile(Mlp(), backend="eager")),  # type: ignore[arg-type]
    "forward hook": lambda: _mlp(_hooked("forward")),
    "pre-hook": lambda: _mlp(_hooked("pre")),
    "backward hook": lambda: _mlp(_hooked("backward")),
    "tensor hook": lambda: _mlp(_hooked("tensor")),
    "failing backward hook": lambda: _mlp(_hooked("fails backward")),
    "failing pre-hook": lambda: _mlp(_hooked("fails")),
    "frozen": lambda: _mlp(_frozen(False)),
    "partly frozen": lambda: _mlp(_frozen(True)),
    "not contiguous": lambda: _mlp(_weights(lambda w: w.T)),
    "NaN": lambda: _mlp(_weights(lambda w: w * float("nan"))),
    "huge": lambda: _mlp(_weights(lambda w: w * 1e30)),
    "zero": lambda: _mlp(_weights(torch.zeros_like)),
    "no parameters": lambda: _mlp(nn.Sequential(nn.Identity())),
    "only empty parameters": lambda: _mlp(nn.Linear(4, 0)),
    "wrong width": lambda: _mlp(nn.Linear(7, 3)),
    "one sample": lambda: (Mlp(), (torch.randn(1, 4), torch.tensor([1]))),
    "spectral_norm in train mode": lambda: _mlp(
        _chain(parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Tanh())
    ),
    "float64": lambda: (Mlp().double(), _classified(torch.randn(4, 4, dtype=torch.float64))),
    "bfloat16": lambda: (Mlp().bfloat16(), _classified(torch.randn(4, 4).bfloat16())),
    "half": lambda: (Mlp().half(), _classified(torch.randn(4, 4).half())),
    "mixed": lambda: _mlp(_chain(nn.BatchNorm1d(6).double())),
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.Conv2d(4, 4, 3, groups=4),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        _classified(torch.randn(4, 1, 8, 8)),
    ),
    "residual": lambda: (
        nn.Sequential(nn.Linear(4, 6), *[Residual() for _ in range(4)], nn.Linear(6, 3)),
        _classified(torch.randn(4, 4)),
    ),
    "recurrent": lambda: (nn.Sequential(nn.LSTM(4, 3), Last()), _classified(torch.randn(4, 4))),
}


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        """x + f(x)."""
        return x + torch.relu(self.inner(x))


class Last(nn.Module):
    """The output of a recurrent layer without its state."""

    def forward(self, x: Any) -> Tensor:
        """The first of the pair."""
        return x[0]


def loss_of(output: Any, targets: Any) -> Tensor:
    """Cross-entropy of the logits, wherever they are."""
    if isinstance(output, dict):
        output = output["logits"]
    return F.cross_entropy(output[0] if isinstance(output, tuple) else output, targets)


@dataclass(frozen=True)
class OddModel:
    """A model with its batch and loss, and its name."""

    name: str
    model: nn.Module
    batch: tuple[Any, Any]
    loss: Callable[[Any, Any], Tensor]


def _stateful(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, Any]]:
    return lambda: _mlp(make())


ODD.update({name: _stateful(make) for name, make in STATEFUL.items()})

NAMES = (*ODD, *(f"layer: {name}" for name in (*LAYERS, *PARAMETRIZATIONS)))


def odd_model(number: int) -> OddModel:
    """The odd model of a number: the first ones are every kind once, later ones are varied."""
    draw = random.Random(number)
    name = NAMES[number % len(NAMES)]
    torch.manual_seed(number)
    loss: Callable[[Any, Any], Tensor]
    if name.startswith("layer: "):
        model, batch = network(name.removeprefix("layer: "), seed=number)
        loss = F.mse_loss
    else:
        model, batch = ODD[name]()
        loss = loss_of
    varied = number >= len(NAMES)
    if varied and draw.random() < 0.5:
        model.train(draw.random() < 0.5)
        name += ", train" if model.training else ", eval"
    if varied and draw.random() < 0.3 and not isinstance(model, torch.jit.ScriptModule):
        free = [p for p in model.parameters() if not is_lazy(p) and not p.is_inference()]
        for parameter in draw.sample(free, k=len(free) // 3):
            parameter.requires_grad_(False)
        name += ", a third frozen"
    if varied and draw.random() < 0.3 and "named" not in name and "DataParallel" not in name:
        model = Outer(model)
        name += ", wrapped"
    return OddModel(name, model, batch, loss)


class Outer(nn.Module):
    """A model inside a model."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inside = inner
        self.train(inner.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the inner one gives."""
        return self.inside(*args, **kwargs)
