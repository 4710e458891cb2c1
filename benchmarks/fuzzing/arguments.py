"""Public functions with one argument replaced by something that is not one, each rebuilt from its number."""

import contextlib
import math
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.curvature import gauss_newton, hessian

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


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def _batch() -> Any:
    return torch.randn(6, 4), torch.arange(6) % 3


def _matrix() -> torch.Tensor:
    a = torch.randn(12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return a + a.T


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def _question(name: str) -> Callable[..., Any]:
    def ask(**options: Any) -> Any:
        return getattr(hessian(_model(), _batch()), name)(**options)

    return ask


def _multiply(v: Any) -> Any:
    return hessian(_model(), _batch()) @ v


def _watch(**options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        model = options.pop("model")
        with bs.watch(model, **options):
            if isinstance(model, nn.Module):
                for _ in range(2):
                    F.cross_entropy(model(torch.randn(6, 4)), torch.arange(6) % 3).backward()


def _save(path: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        bs.diagnose(_model(), _batch()).save(path)


def _fit(**options: Any) -> None:
    data = {name: options.pop(name) for name in ("X", "y")}
    try:
        bs.estimators.DenseNEstRegressor(**options).fit(data["X"], data["y"])
    except (ValueError, TypeError) as error:  # an estimator refuses as scikit-learn's own checks do
        raise bs.core.UsageError(str(error).splitlines()[0][:200]) from error


# A public function, and good arguments of which one or two will be replaced.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], Mapping[str, Any]]]] = {
    "diagnose": (
        bs.diagnose,
        lambda: {
            "model": (m := _model()),
            "batch": _batch(),
            "loss": F.cross_entropy,
            "optimizer": _optimizer(m),
            "probes": "standard",
            "blocks": ["0"],
            "thresholds": {},
            "silence": (),
            "steps": 1,
            "most_blocks": 2,
            "memory": 1.0,
            "title": "x",
        },
    ),
    "blocks_of": (
        bs.blocks_of,
        lambda: {"model": _model(), "example": torch.randn(2, 4), "blocks": None},
    ),
    "hessian": (
        lambda **options: hessian(options.pop("model"), options.pop("data"), **options).extremes(1),
        lambda: {
            "model": _model(),
            "data": _batch(),
            "loss": F.cross_entropy,
            "batchnorm": "batch",
            "parameters": None,
        },
    ),
    "gauss_newton": (
        lambda **options: gauss_newton(
            options.pop("model"), options.pop("data"), **options
        ).trace(),
        lambda: {
            "model": _model(),
            "data": _batch(),
            "loss": F.cross_entropy,
            "parameters": ["0.*"],
        },
    ),
    "H @ v": (_multiply, lambda: {"v": torch.randn(43)}),
    "H.extremes": (
        _question("extremes"),
        lambda: {"k": 1, "ends": "both", "tolerance": 1e-4, "max_products": 50, "seed": 0},
    ),
    "H.density": (
        _question("density"),
        lambda: {"probes": 2, "steps": 4, "outlier_steps": 4, "seed": 0},
    ),
    "H.trace": (_question("trace"), lambda: {"exact": None, "probes": 3, "sketch": 1, "seed": 0}),
    "H.condition_number": (
        _question("condition_number"),
        lambda: {
            "definition": "cutoff",
            "percentile": 0.1,
            "cutoff": 1e-6,
            "exact": True,
            "resolution": 2.0,
        },
    ),
    "H.negative_index": (
        _question("negative_index"),
        lambda: {"cutoff": 1e-6, "exact": True, "resolution": 0.5},
    ),
    "H.by_block": (_question("by_block"), lambda: {"blocks": None, "seed": 0}),
    **{
        f"measure.{name}": (
            getattr(bs.measure, name),
            lambda: {"model": _model(), "batch": _batch(), "loss": F.cross_entropy, "blocks": None},
        )
        for name in (
            "activations",
            "gradients",
            "representations",
            "parameter_gradients",
            "deletion",
        )
    },
    "measure.weights": (
        bs.measure.weights,
        lambda: {
            "model": _model(),
            "batch": _batch(),
            "blocks": None,
            "cutoff": None,
            "largest_side": 99,
        },
    ),
    "measure.updates": (
        bs.measure.updates,
        lambda: {
            "model": (m := _model()),
            "batch": _batch(),
            "loss": F.cross_entropy,
            "optimizer": _optimizer(m),
        },
    ),
    "watch": (
        _watch,
        lambda: {"model": _model(), "every": 1, "log": None, "blocks": None, "conditioning": False},
    ),
    "certify": (
        bs.certificates.certify,
        lambda: {
            "model": _model(),
            "data": _batch(),
            "loss": "cross_entropy",
            "blocks": True,
            "curvature": True,
            "tolerance": 1e-6,
        },
    ),
    "save": (_save, lambda: {"path": "report.json"}),
    "conv_singular_values": (
        bs.linalg.conv_singular_values,
        lambda: {
            "layer": torch.randn(2, 2, 3, 3),
            "size": 6,
            "padding": "circular",
            "stride": 1,
            "dilation": 1,
            "groups": 1,
            "method": "auto",
            "num": 2,
        },
    ),
    "extreme_eigenvalues": (
        bs.linalg.extreme_eigenvalues,
        lambda: {
            "operator": _matrix(),
            "k": 2,
            "ends": "both",
            "tolerance": 1e-4,
            "max_products": 40,
        },
    ),
    "spectral_density": (
        bs.linalg.spectral_density,
        lambda: {
            "operator": _matrix(),
            "probes": 2,
            "steps": 3,
            "outlier_steps": 3,
            "at_once": None,
        },
    ),
    "trace_estimate": (
        bs.linalg.trace_estimate,
        lambda: {"operator": _matrix(), "probes": 3, "sketch": 1, "at_once": None},
    ),
    "conditioning_of": (
        bs.linalg.conditioning_of,
        lambda: {"tensor": torch.randn(4, 3), "mode": 0, "cutoff": None},
    ),
    "nets.build": (bs.nets.build, lambda: {"name": "plain-8", "seed": 0, "init": None}),
    "claims.check": (bs.claims.check, lambda: {"claim": "norm_preservation.lemma_1", "seed": 0}),
    "data.load": (
        bs.data.load,
        lambda: {
            "name": "digits",
            "num_train": 5,
            "num_test": 5,
            "size": None,
            "seed": 0,
            "normalise": False,
        },
    ),
    "DenseNEstRegressor": (
        _fit,
        lambda: {
            "X": np.random.default_rng(0).normal(size=(20, 3)),
            "y": np.arange(20.0),
            "random_state": 0,
        },
    ),
}


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
