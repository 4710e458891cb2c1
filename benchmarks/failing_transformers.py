"""Random transformers of which many fail, each rebuilt from its number: what `treat` is scored on.

GPT-, BERT- and ViT-like networks of the catalog and layers of `nn.TransformerEncoder`, of 2 to 8 blocks:
norms anywhere or nowhere, now and then without skips, starts and tables of any size, SGD or Adam. Images
are those of `failing_networks`; sequences of 12 tokens are to be copied or sorted, which sound networks of
4 blocks learn to 95 % and more within 300 steps of Adam. Numbers from 20,000 on are for development, without
Fashion-MNIST and sorting. A first score stopped at 30,034; its two misses were looked at, and those from
50,000 on with them. Numbers from 60,000 on are for scoring.
"""

import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from bathyscope import data, nets
from bathyscope.core.losses import token_cross_entropy
from benchmarks.failing_networks import FailureTask, MeanToken, Positions, Tokens, start_, task_of

FIRST_DEVELOPMENT, FIRST_OF_ALL_DATA = 20_000, 30_000
SCORED = range(60_000, 60_400)
"""Scored in this order until at least 30 of them failed; fixed before the first was trained."""

_CONTEXT = 12
_STARTS = ("default", "default", "he", "twice he", "orthogonal", "normal 0.05", "normal 0.2")
_NORMS = ("pre", "post", "post", "deep", "sandwich", "none")


@dataclass(frozen=True, slots=True)
class TransformerDraw:
    """One random transformer with its data, its optimizer and its learning rate."""

    number: int
    family: str
    task: str
    depth: int
    width: int
    norm: str
    norm_kind: str
    feed_forward: str
    positions: Literal["learned", "rotary"]
    qk_norm: bool
    skip: bool
    start: str
    table: float
    optimizer: str
    lr: float

    @classmethod
    def of(cls, number: int) -> "TransformerDraw":
        """The draw of a number."""
        pick = random.Random(number)
        all_data = number >= FIRST_OF_ALL_DATA
        family = pick.choice(["encoder", "gpt", "bert", "vit"])
        images = ["digits", "stripes", *(["fashion"] if all_data else [])]
        sequences = ["copy", *(["sorting"] if all_data else [])]
        optimizer = pick.choice(["sgd", "adam"])
        high = 0.5 if optimizer == "sgd" else 0.1
        return cls(
            number=number,
            family=family,
            task=pick.choice(images if family in ("encoder", "vit") else sequences),
            depth=round(math.exp(pick.uniform(math.log(2), math.log(8)))),
            width=pick.choice([24, 32]),
            norm=pick.choice(["pre", "post"] if family == "encoder" else _NORMS),
            norm_kind=pick.choice(["layer", "rms"]),
            feed_forward=pick.choice(["gelu", "swiglu"]),
            positions=pick.choice(["learned", "rotary"]),
            qk_norm=pick.random() < 0.2,
            skip=pick.random() < 0.8,
            start=pick.choice(_STARTS),
            table=pick.choice([0.02, 0.02, 1.0, 5.0]),
            optimizer=optimizer,
            lr=math.exp(pick.uniform(math.log(1e-4), math.log(high))),
        )

    def build(self, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The network from this seed, and its optimizer."""
        torch.manual_seed(1000 * self.number + seed)
        model = self._encoder() if self.family == "encoder" else self._of_the_catalog(seed)
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name.startswith("blocks."):
                start_(module.weight, self.start)
            elif isinstance(module, nn.Embedding) and self.table != 0.02:
                nn.init.normal_(module.weight, std=self.table)
        if self.optimizer == "sgd":
            return model, torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)
        return model, torch.optim.Adam(model.parameters(), lr=self.lr)

    def _encoder(self) -> nn.Module:
        layers = [
            nn.TransformerEncoderLayer(
                self.width,
                4,
                2 * self.width,
                dropout=0.0,
                batch_first=True,
                norm_first=self.norm == "pre",
            )
            for _ in range(self.depth)
        ]
        parts = {
            "stem": nn.Sequential(Tokens(), nn.Linear(8, self.width), Positions(self.width)),
            "blocks": nn.Sequential(*layers),
            "head": nn.Sequential(MeanToken(), nn.Linear(self.width, 10)),
        }
        return nn.Sequential(OrderedDict(parts))

    def _of_the_catalog(self, seed: int) -> nn.Module:
        options: dict[str, object] = {
            "width": self.width,
            "heads": 4,
            "norm": self.norm,
            "norm_kind": self.norm_kind,
            "feed_forward": self.feed_forward,
            "positions": self.positions,
            "qk_norm": self.qk_norm,
            "skip": self.skip,
        }
        if self.family == "vit":
            options |= {"in_channels": 1, "image_size": 8, "patch": 4, "num_classes": 10}
        else:
            options |= {"vocabulary": 11, "context": _CONTEXT}
        return nets.build(f"{self.family}-{self.depth}", seed=1000 * self.number + seed, **options)


class SequenceTask(FailureTask):
    """Sequences of tokens in random batches, and the accuracy on the tokens that are asked for."""

    def __init__(self, name: str) -> None:
        self.loss = token_cross_entropy
        result = data.sequences(name, context=_CONTEXT, num_train=2000, num_test=1)
        assert isinstance(result.train_inputs, Tensor)
        assert isinstance(result.train_targets, Tensor)
        self.x, self.y = result.train_inputs, result.train_targets


@cache
def transformer_task(name: str) -> FailureTask:
    """The task of that name, loaded once."""
    return SequenceTask(name) if name in data.SEQUENCES else task_of(name)
