"""Odd models with a state of their own, blocks called by keyword, parts made late, arithmetic in place."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.fuzzing.mlp import Mlp


class OwnGenerators(Mlp):
    """Samples noise from generators that it owns."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)
        self.numpy_generator = np.random.default_rng(3)

    def touch(self, x: Tensor) -> Tensor:
        """Noise of both."""
        noise = torch.randn(x.shape, generator=self.generator).to(x)
        return x + 1e-3 * noise * float(self.numpy_generator.random())


class KeepsThings(Mlp):
    """Writes to a plain tensor, a list, a mapping and a number at every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.average = torch.zeros(6)  # not a buffer
        self.seen: list[float] = []
        self.by_name: dict[str, Any] = {"count": 0, "last": torch.zeros(2)}
        self.step = 0

    def touch(self, x: Tensor) -> Tensor:
        """Keeps what it saw."""
        self.average.mul_(0.9).add_(0.1 * x.detach().float().mean(dim=0))
        self.seen.append(float(x.detach().float().mean()))
        self.by_name["count"] += 1
        self.by_name["last"] = x.detach()[0, :2]
        self.step += 1
        return x


class NegativeZero(Mlp):
    """A buffer of −0.0, and one that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.tensor([-0.0, 0.0]))
        self.register_buffer("history", torch.zeros(0))
        self.zero: Tensor
        self.history: Tensor

    def touch(self, x: Tensor) -> Tensor:
        """The buffer gets one entry more."""
        self.history = torch.cat([self.history, x.detach().float().mean()[None]])
        return x + self.zero[0].to(x.dtype)


class MadeLate(Mlp):
    """Makes a layer at its first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.late: nn.Module | None = None

    def touch(self, x: Tensor) -> Tensor:
        """Through the layer, which is there from the first pass on."""
        if self.late is None:
            self.late = nn.Linear(x.shape[-1], x.shape[-1]).to(x)
        return self.late(x)


class ByKeyword(nn.Module):
    """Blocks that are called by keyword alone."""

    class Block(nn.Module):
        """x + f(x), for one keyword or two."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, *, hidden: Tensor, scale: float = 1.0) -> Tensor:
            """x + f(x)."""
            return hidden + scale * torch.tanh(self.inner(hidden))

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.blocks = nn.ModuleList([self.Block() for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        """Through all of them."""
        x = self.first(x)
        for block in self.blocks:
            x = block(hidden=x, scale=0.5)
        return self.last(x)


class InPlaceAttention(nn.Module):
    """Attention by hand whose scores are scaled, masked and normalized in place."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv, self.last = nn.Linear(1, 8), nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Four positions, one head."""
        h = self.embed(x[:, :, None])
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        scores = q @ k.mT
        scores /= math.sqrt(8)
        scores += torch.zeros_like(scores).masked_fill_(
            torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu_(1), -1e4
        )
        return self.last((h + scores.softmax(dim=-1) @ v).mean(dim=1))


class KeptByFunction(torch.autograd.Function):
    """x², whose backward pass reads a tensor that is kept as an attribute."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """x²."""
        ctx.kept = x
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """2x times the gradient."""
        return 2 * ctx.kept.detach() * gradients[0]


class OwnFunction(Mlp):
    """Goes through a function with a backward pass of its own."""

    def touch(self, x: Tensor) -> Tensor:
        """x²."""
        return KeptByFunction.apply(x)


class SwitchesMode(Mlp):
    """Changes its own mode and that of a layer within a pass."""

    def touch(self, x: Tensor) -> Tensor:
        """Training mode for an instant."""
        before = self.inner.training
        self.inner.train(not before)
        self.inner.train(before)
        return x


STATEFUL: dict[str, Callable[[], nn.Module]] = {
    "own generators": OwnGenerators,
    "keeps things": KeepsThings,
    "negative zero": NegativeZero,
    "made late": MadeLate,
    "by keyword": ByKeyword,
    "attention in place": InPlaceAttention,
    "own function": OwnFunction,
    "switches its mode": SwitchesMode,
}
