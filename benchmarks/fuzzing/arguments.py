"""Public functions with one argument replaced by something that is not one, each rebuilt from its number."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.fuzzing import doing, functions

FUNCTIONS = {**functions.FUNCTIONS, **doing.FUNCTIONS}

_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**40,
    -(2**70),
    0.5,
    -0.5,
    math.nan,
    math.inf,
    1e308,
    3j,
    "",
    "x",
    "0",
    "../..",
    "*",
    b"x",
    (),
    [],
    {},
    set(),
    [None],
    ["x"],
    [1, 2],
    (1, 2, 3),
    {"x": 1},
    object,
    len,
    print,
    Path("/nowhere"),
    np.int64(2),
    np.float64(0.5),
    np.nan,
    np.array([1, 2]),
    range(3),
    ValueError("x"),
    "a" * 3000,
    "\x00",
    "é\u202e",
    "nan",
    "-1",
    "1e9",
    torch.float32,
)
BAD: tuple[Callable[[], Any], ...] = (
    *(lambda value=value: value for value in _VALUES),  # type: ignore[misc]
    lambda: torch.randn(4, 4),
    lambda: torch.tensor(1),
    lambda: torch.zeros(0),
    lambda: torch.tensor(float("nan")),
    lambda: torch.randn(2, 4, dtype=torch.complex64),
    lambda: nn.Linear(2, 2),
    lambda: nn.Linear,
    lambda: iter([]),
    lambda: (i for i in range(3)),
    lambda: torch.Generator().manual_seed(0),
    lambda: (torch.randn(3, 4), torch.tensor([0, 1, 9])),
    lambda: (torch.randn(3, 4), None),
    lambda: (torch.full((3, 4), float("inf")), torch.tensor([0, 1, 2])),
    lambda: [(torch.randn(3, 4), torch.tensor([0, 1, 2]))],
    lambda: [torch.randn(3, 4), torch.tensor([0, 1, 2])],
    lambda: {"x": torch.randn(3, 4)},
    lambda: lambda *_: torch.tensor(1.0),
    lambda: lambda *_: 1 / 0,
)


def bad_call(number: int) -> tuple[str, Callable[[], Any]]:
    """The call of a number: every function, argument and value meet in turn."""
    draw = random.Random(number)
    name = list(FUNCTIONS)[number % len(FUNCTIONS)]
    function, good = FUNCTIONS[name]
    given = dict(good())
    which = draw.sample(list(given), k=min(len(given), 1 if draw.random() < 0.8 else 2))
    values = {argument: draw.choice(BAD)() for argument in which}

    def call() -> Any:
        return function(**{**given, **values})

    shown = ", ".join(f"{a}={repr(v)[:40]}" for a, v in values.items())
    return f"{name}({shown})", call
