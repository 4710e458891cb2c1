"""Public functions that measure and compute, with good arguments of which one or two will be replaced."""

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.curvature import gauss_newton, hessian

Functions = dict[str, tuple[Callable[..., Any], Callable[[], Mapping[str, Any]]]]
"""A function by its name, and what makes its good arguments."""


def small_model() -> nn.Module:
    """Three layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def small_batch() -> Any:
    """Six samples of three classes."""
    return torch.randn(6, 4), torch.arange(6) % 3


def _matrix() -> torch.Tensor:
    a = torch.randn(12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return a + a.T


def sgd_of(model: nn.Module) -> torch.optim.Optimizer:
    """An optimizer of its parameters."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


def _question(name: str) -> Callable[..., Any]:
    def ask(**options: Any) -> Any:
        return getattr(hessian(small_model(), small_batch()), name)(**options)

    return ask


def _multiply(v: Any) -> Any:
    return hessian(small_model(), small_batch()) @ v


def _watch(**options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        model = options.pop("model")
        with bs.watch(model, **options):
            # a model that does not take the batch fails by itself, watched or not
            for _ in range(2 if isinstance(model, nn.Sequential) else 0):
                F.cross_entropy(model(torch.randn(6, 4)), torch.arange(6) % 3).backward()


def _save(path: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        bs.diagnose(small_model(), small_batch()).save(path)


def _fit(**options: Any) -> None:
    data = {name: options.pop(name) for name in ("X", "y")}
    try:
        bs.estimators.DenseNEstRegressor(**options).fit(data["X"], data["y"])
    except (ValueError, TypeError) as error:  # an estimator refuses as scikit-learn's own checks do
        raise bs.core.UsageError(str(error).splitlines()[0][:200]) from error


FUNCTIONS: Functions = {
    "diagnose": (
        bs.diagnose,
        lambda: {
            "model": (m := small_model()),
            "batch": small_batch(),
            "loss": F.cross_entropy,
            "optimizer": sgd_of(m),
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
        lambda: {"model": small_model(), "example": torch.randn(2, 4), "blocks": None},
    ),
    "hessian": (
        lambda **options: hessian(options.pop("model"), options.pop("data"), **options).extremes(1),
        lambda: {
            "model": small_model(),
            "data": small_batch(),
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
            "model": small_model(),
            "data": small_batch(),
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
            "definition": "tolerance",
            "percentile": 0.1,
            "tolerance": 1e-6,
            "exact": True,
            "resolution": 2.0,
        },
    ),
    "H.negative_index": (
        _question("negative_index"),
        lambda: {"tolerance": 1e-6, "exact": True, "resolution": 0.5},
    ),
    "H.by_block": (_question("by_block"), lambda: {"blocks": None, "seed": 0}),
    **{
        f"measure.{name}": (
            getattr(bs.measure, name),
            lambda: {
                "model": small_model(),
                "batch": small_batch(),
                "loss": F.cross_entropy,
                "blocks": None,
            },
        )
        for name in (
            "activations",
            "gradients",
            "representations",
            "parameter_gradients",
            "deletion",
            "attention",
            "attention_heads",
            "representation_spectra",
            "standard",
        )
    },
    "measure.weights": (
        bs.measure.weights,
        lambda: {
            "model": small_model(),
            "batch": small_batch(),
            "blocks": None,
            "tolerance": None,
            "largest_side": 99,
        },
    ),
    "measure.updates": (
        bs.measure.updates,
        lambda: {
            "model": (m := small_model()),
            "batch": small_batch(),
            "loss": F.cross_entropy,
            "optimizer": sgd_of(m),
        },
    ),
    "watch": (
        _watch,
        lambda: {
            "model": small_model(),
            "every": 1,
            "log": None,
            "blocks": None,
            "conditioning": False,
        },
    ),
    "certify": (
        bs.certificates.certify,
        lambda: {
            "model": small_model(),
            "data": small_batch(),
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
        lambda: {"tensor": torch.randn(4, 3), "mode": 0, "tolerance": None},
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
            "normalize": False,
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
