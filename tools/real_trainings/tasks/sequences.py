"""Tasks on sequences: language models of characters and tokens, tagging, and a sum over time."""

import random
import re
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from tools.real_trainings.networks.attention import TokenTransformer
from tools.real_trainings.networks.dense import DenseNet
from tools.real_trainings.networks.recurrent import Recurrent
from tools.real_trainings.tasks.task import (
    Task,
    Tensors,
    accuracy,
    class_entropy,
    mean_square,
    split,
)

LENGTH = 24
NUM_HELD_OUT = 256
NUM_TOKENS = 24
NUM_TAGS = 5
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,;:()'\"-_=+*/\n#"


@cache
def _documentation() -> str:
    """Python's own documentation of its topics, in lower case; it differs a little by version."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[key] for key in sorted(topics)).lower()
    return re.sub(r" +", " ", "".join(c if c in ALPHABET else "#" for c in text))[:400_000]


@cache
def _grammar() -> str:
    """Sentences of a small grammar with nested clauses, and correct sums."""
    draw = random.Random(7)
    nouns = [
        "cat",
        "dog",
        "bird",
        "fish",
        "child",
        "king",
        "stone",
        "river",
        "tree",
        "ship",
        "wolf",
        "house",
    ]
    commands = ["sees", "likes", "finds", "follows", "carries", "wants", "hears", "paints"]
    adjectives = ["old", "small", "red", "quiet", "strange", "happy", "tall", "cold"]

    def phrase(depth: int) -> str:
        adjective = f"{draw.choice(adjectives)} " if draw.random() < 0.4 else ""
        text = f"the {adjective}{draw.choice(nouns)}"
        if depth and draw.random() < 0.3:
            text += f" that {draw.choice(commands)} {phrase(depth - 1)}"
        return text

    pieces = []
    for _ in range(6000):
        if draw.random() < 0.3:
            a, b = draw.randrange(50), draw.randrange(50)
            pieces.append(f"{a}+{b}={a + b};")
        else:
            pieces.append(f"{phrase(2)} {draw.choice(commands)} {phrase(1)}.")
    return " ".join(pieces)


def _windows(text: str) -> tuple[Tensors, Tensors]:
    """Windows of LENGTH + 1 characters that follow each other; every 20th is held out."""
    codes = torch.tensor([ALPHABET.index(c) for c in text])
    count = len(codes) // (LENGTH + 1)
    windows = codes[: count * (LENGTH + 1)].view(count, LENGTH + 1)
    is_held_out = torch.arange(count) % 20 == 0
    return (windows[~is_held_out],), (windows[is_held_out][:128],)


@cache
def _documentation_windows() -> tuple[Tensors, Tensors]:
    return _windows(_documentation())


@cache
def _grammar_windows() -> tuple[Tensors, Tensors]:
    return _windows(_grammar())


@cache
def _tokens() -> tuple[Tensors, Tensors]:
    """A sparse first-order chain whose second half repeats the first: n-grams and induction."""
    generator = Generator().manual_seed(11)
    transition = torch.softmax(2.0 * torch.randn(NUM_TOKENS, NUM_TOKENS, generator=generator), 1)
    count, half = 6000, (LENGTH + 2) // 2
    rows = [torch.randint(NUM_TOKENS, (count,), generator=generator)]
    while len(rows) < half:
        rows.append(torch.multinomial(transition[rows[-1]], 1, generator=generator).squeeze(1))
    first = torch.stack(rows, 1)
    return split((torch.cat([first, first], 1)[:, : LENGTH + 1],), NUM_HELD_OUT)


def _next_token(model: nn.Module, batch: Tensors) -> Tensor:
    logits = model(batch[0][:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[0][:, 1:].flatten())


def _next_accuracy(model: nn.Module, batch: Tensors) -> float:
    return accuracy(model(batch[0][:, :-1]), batch[0][:, 1:])


def _language_model(name: str, vocabulary: int, **options: Any) -> Task:
    return Task(
        name=name,
        loss_name="cross-entropy",
        baseline="cross-entropy of the tokens' training frequencies (unigram)",
        families={
            "transformer": lambda c: TokenTransformer(
                vocabulary, vocabulary, length=LENGTH, is_causal=True, **c
            ),
            "recurrent": lambda c: Recurrent(
                vocabulary, vocabulary, is_token=True, is_last_only=False, **c
            ),
        },
        loss=_next_token,
        constant_loss=lambda held_out, train, _: class_entropy(
            held_out[0][:, 1:], train[0][:, 1:], vocabulary
        ),
        metric=_next_accuracy,
        metric_name="accuracy",
        batch_sizes=(8, 16),
        longest=1200,
        sgd_rate=0.5,
        **options,
    )


DOCUMENTATION = _language_model(
    "characters-docs", len(ALPHABET), kind="character language model", data=_documentation_windows
)
GRAMMAR = _language_model(
    "characters-grammar", len(ALPHABET), kind="character language model", data=_grammar_windows
)
TOKENS = _language_model("tokens-induction", NUM_TOKENS, kind="token language model", data=_tokens)


@cache
def _tagged() -> tuple[Tensors, Tensors]:
    """Each token's tag is that of the last trigger token before it; triggers are rare."""
    generator = Generator().manual_seed(13)
    count, length = 4000, 16
    tokens = torch.randint(NUM_TAGS, 20, (count, length), generator=generator)
    is_trigger = torch.rand(count, length, generator=generator) < 0.15
    triggers = torch.randint(NUM_TAGS, (count, length), generator=generator)
    tokens = torch.where(is_trigger, triggers, tokens)
    tags = torch.zeros_like(tokens)
    current = torch.zeros(count, dtype=torch.long)
    for step in range(length):
        current = torch.where(is_trigger[:, step], triggers[:, step], current)
        tags[:, step] = current
    return split((tokens, tags), NUM_HELD_OUT)


TAGGING = Task(
    name="tagging",
    kind="sequence tagging",
    loss_name="cross-entropy",
    baseline="cross-entropy of the tags' training frequencies",
    families={
        "recurrent": lambda c: Recurrent(20, NUM_TAGS, is_token=True, is_last_only=False, **c),
        "transformer": lambda c: TokenTransformer(20, NUM_TAGS, length=16, is_causal=False, **c),
    },
    data=_tagged,
    loss=lambda model, b: F.cross_entropy(model(b[0]).flatten(0, 1), b[1].flatten()),
    constant_loss=lambda held_out, train, _: class_entropy(held_out[1], train[1], NUM_TAGS),
    metric=lambda model, b: accuracy(model(b[0]), b[1]),
    metric_name="accuracy",
    batch_sizes=(8, 16, 32),
    longest=1200,
    sgd_rate=0.5,
)


@cache
def _marked_sums() -> tuple[Tensors, Tensors]:
    """Numbers in [0, 1] of which two are marked; the target is the sum of the marked ones."""
    generator = Generator().manual_seed(17)
    count, length = 4000, 12
    values = torch.rand(count, length, generator=generator)
    order = torch.rand(count, length, generator=generator).argsort(1)
    marks = torch.zeros(count, length).scatter_(1, order[:, :2], 1.0)
    target = (values * marks).sum(1, keepdim=True)
    return split((torch.stack([values, marks], 2), target), NUM_HELD_OUT)


ADDING = Task(
    name="adding",
    kind="sequence regression",
    loss_name="squared error",
    baseline="squared error of the mean training target",
    families={
        "recurrent": lambda c: Recurrent(2, 1, is_token=False, is_last_only=True, **c),
        "dense": lambda c: DenseNet(24, 1, **c),
    },
    data=_marked_sums,
    loss=lambda model, b: F.mse_loss(model(b[0]), b[1]),
    constant_loss=lambda held_out, train, _: mean_square(held_out[1], train[1]),
)
