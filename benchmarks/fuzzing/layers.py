"""Every layer type of `torch.nn` that has parameters and every common parametrization, in a small network.

Each network is smooth, in float64, and takes a batch of its own, so that central differences of its
gradient are a slow and obvious reference for its Hessian.
"""

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

Case = Callable[[], tuple[nn.Module, Any]]
"""Makes a layer and the inputs it takes."""


class Wrapped(nn.Module):
    """A layer between nothing and a smooth head that makes three numbers of whatever it gives."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.scale = nn.Parameter(torch.tensor([1.0, 0.5, -0.7]))

    def forward(self, *inputs: Any) -> Tensor:
        """Three smooth numbers per sample."""
        values = first_tensor(self.layer(*inputs))
        # waves of three lengths: no entry of the layer's output has the same weight as another
        locations = torch.arange(1, values.numel() + 1, dtype=values.dtype).view(values.shape)
        waves = [torch.tanh(values * torch.cos(k * locations)) for k in (1, 2, 3)]
        return torch.stack([w.flatten().sum() for w in waves]) * self.scale


def first_tensor(value: Any) -> Tensor:
    """The first tensor of a layer's output."""
    while not isinstance(value, Tensor):
        value = value[0]
    return value


class SelfAttention(nn.MultiheadAttention):
    """Attention of a sequence to itself."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        """The output with its weights."""
        return super().forward(x, x, x)


class Adaptive(nn.AdaptiveLogSoftmaxWithLoss):
    """The adaptive softmax, fed with labels of its own."""

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        """The log-probabilities of the labels."""
        return super().forward(x, torch.arange(len(x)) % self.n_classes)


class LinearCrossEntropy(nn.LinearCrossEntropyLoss):
    """A linear layer joined with its loss, fed with labels of its own."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of the labels."""
        return super().forward(x, torch.arange(len(x)) % self.num_classes)


class CrossMapFree(nn.Module):
    """Layers without parameters of their own after one that has some."""

    def __init__(self, after: nn.Module) -> None:
        super().__init__()
        self.first, self.after = nn.Conv2d(2, 4, 2), after

    def forward(self, x: Tensor) -> Tensor:
        """The layer after the convolution."""
        return self.after(self.first(x))


def _x(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def _ids(*shape: int) -> Tensor:
    return torch.randint(0, 5, shape)


LAYERS: dict[str, Case] = {
    "Linear": lambda: (nn.Linear(3, 4), _x(2, 3)),
    "NonDynamicallyQuantizableLinear": lambda: (
        nn.modules.linear.NonDynamicallyQuantizableLinear(3, 4),
        _x(2, 3),
    ),
    "Bilinear": lambda: (nn.Bilinear(2, 3, 2), (_x(2, 2), _x(2, 3))),
    "Conv1d": lambda: (nn.Conv1d(2, 4, 3, groups=2, stride=2), _x(2, 2, 7)),
    "Conv2d": lambda: (nn.Conv2d(2, 3, 2, padding=1), _x(2, 2, 3, 3)),
    "Conv3d": lambda: (nn.Conv3d(1, 2, 2), _x(2, 1, 3, 3, 3)),
    "ConvTranspose1d": lambda: (nn.ConvTranspose1d(2, 3, 3, stride=2), _x(2, 2, 4)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(2, 2, 2), _x(2, 2, 3, 3)),
    "ConvTranspose3d": lambda: (nn.ConvTranspose3d(1, 2, 2), _x(2, 1, 2, 2, 2)),
    "Conv2d circular": lambda: (
        nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
        _x(2, 2, 3, 3),
    ),
    "Conv2d reflect": lambda: (
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect", dilation=1),
        _x(2, 2, 3, 3),
    ),
    "BatchNorm1d": lambda: (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), _x(5, 3)),
    "BatchNorm2d": lambda: (nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2)), _x(3, 1, 3, 3)),
    "BatchNorm3d": lambda: (
        nn.Sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2)),
        _x(2, 1, 3, 3, 3),
    ),
    "SyncBatchNorm": lambda: (
        nn.Sequential(nn.Conv2d(1, 2, 2), nn.SyncBatchNorm(2)),
        _x(3, 1, 3, 3),
    ),
    "InstanceNorm1d": lambda: (
        nn.Sequential(nn.Conv1d(2, 3, 2), nn.InstanceNorm1d(3, affine=True)),
        _x(2, 2, 6),
    ),
    "InstanceNorm2d": lambda: (
        nn.Sequential(nn.Conv2d(1, 2, 2), nn.InstanceNorm2d(2, affine=True)),
        _x(2, 1, 4, 4),
    ),
    "InstanceNorm3d": lambda: (
        nn.Sequential(nn.Conv3d(1, 2, 2), nn.InstanceNorm3d(2, affine=True)),
        _x(2, 1, 3, 3, 3),
    ),
    "LayerNorm": lambda: (nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5)), _x(3, 3)),
    "RMSNorm": lambda: (nn.Sequential(nn.Linear(3, 5), nn.RMSNorm(5)), _x(3, 3)),
    "GroupNorm": lambda: (nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(1, 4)), _x(1, 1, 4, 4)),
    "GroupNorm of two groups": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4)),
        _x(3, 1, 4, 4),
    ),
    "Embedding": lambda: (nn.Embedding(5, 3), _ids(2, 3)),
    "Embedding by frequency": lambda: (nn.Embedding(5, 3, scale_grad_by_freq=True), _ids(2, 4)),
    "Embedding of bounded norm": lambda: (nn.Embedding(5, 3, max_norm=10.0), _ids(2, 3)),
    "EmbeddingBag": lambda: (nn.EmbeddingBag(5, 3), _ids(2, 3)),
    "EmbeddingBag of sums": lambda: (nn.EmbeddingBag(5, 3, mode="sum"), _ids(2, 3)),
    "EmbeddingBag of maxima": lambda: (nn.EmbeddingBag(5, 3, mode="max"), _ids(2, 3)),
    "PReLU": lambda: (nn.Sequential(nn.Linear(3, 4), nn.PReLU(4)), _x(3, 3)),
    "RNN": lambda: (nn.RNN(3, 2, num_layers=2), _x(4, 2, 3)),
    "LSTM": lambda: (nn.LSTM(3, 2, bidirectional=True), _x(3, 2, 3)),
    "LSTM with projection": lambda: (nn.LSTM(3, 3, proj_size=2), _x(3, 2, 3)),
    "GRU": lambda: (nn.GRU(3, 2), _x(3, 2, 3)),
    "RNNCell": lambda: (nn.RNNCell(3, 2), _x(2, 3)),
    "LSTMCell": lambda: (nn.LSTMCell(3, 2), _x(2, 3)),
    "GRUCell": lambda: (nn.GRUCell(3, 2), _x(2, 3)),
    "MultiheadAttention": lambda: (SelfAttention(4, 2, batch_first=True), _x(2, 3, 4)),
    "MultiheadAttention with bias rows": lambda: (
        SelfAttention(4, 2, add_bias_kv=True, batch_first=True),
        _x(2, 3, 4),
    ),
    "TransformerEncoderLayer": lambda: (
        nn.TransformerEncoderLayer(4, 2, 5, activation=nn.functional.gelu, batch_first=True),
        _x(2, 3, 4),
    ),
    "TransformerDecoderLayer": lambda: (
        nn.TransformerDecoderLayer(4, 2, 5, activation=nn.functional.gelu, batch_first=True),
        (_x(1, 2, 4), _x(1, 3, 4)),
    ),
    "TransformerEncoder": lambda: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 3, activation=nn.functional.gelu, batch_first=True), 2
        ),
        _x(1, 2, 4),
    ),
    "TransformerDecoder": lambda: (
        nn.TransformerDecoder(
            nn.TransformerDecoderLayer(2, 1, 3, activation=nn.functional.gelu, batch_first=True), 2
        ),
        (_x(1, 2, 2), _x(1, 2, 2)),
    ),
    "Transformer": lambda: (
        nn.Transformer(
            2,
            1,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dim_feedforward=3,
            activation=nn.functional.gelu,
            batch_first=True,
        ),
        (_x(1, 2, 2), _x(1, 2, 2)),
    ),
    "AdaptiveLogSoftmaxWithLoss": lambda: (Adaptive(4, 6, [2, 4]), _x(3, 4)),
    "LinearCrossEntropyLoss": lambda: (LinearCrossEntropy(4, 3), _x(3, 4)),
    "LocalResponseNorm": lambda: (CrossMapFree(nn.LocalResponseNorm(2)), _x(2, 2, 3, 3)),
    "AvgPool2d": lambda: (CrossMapFree(nn.AvgPool2d(2)), _x(2, 2, 3, 3)),
    "LPPool2d": lambda: (CrossMapFree(nn.LPPool2d(2, 2)), _x(2, 2, 3, 3)),
    "PixelShuffle": lambda: (CrossMapFree(nn.PixelShuffle(2)), _x(2, 2, 3, 3)),
    "Upsample": lambda: (
        CrossMapFree(nn.Upsample(scale_factor=2, mode="bilinear")),
        _x(1, 2, 3, 3),
    ),
    **{
        f"Linear with {name}": lambda name=name: (  # type: ignore[misc]
            nn.Sequential(nn.Linear(3, 4), getattr(nn, name)()),
            _x(3, 3),
        )
        for name in (
            "ELU",
            "CELU",
            "SELU",
            "GELU",
            "SiLU",
            "Mish",
            "Softplus",
            "Tanh",
            "Sigmoid",
            "LogSigmoid",
            "Softsign",
            "Tanhshrink",
            "Hardswish",
            "GLU",
            "Softmax",
            "LogSoftmax",
            "Softmin",
        )
    },
}


class Symmetric(nn.Module):
    """A parametrization of one's own: the symmetric part, through an exponential."""

    def forward(self, x: Tensor) -> Tensor:
        """exp of the symmetric part."""
        return torch.exp(0.3 * (x + x.T))


def _old_weight_norm(layer: nn.Module, dim: int | None = 0) -> nn.Module:
    return torch.nn.utils.weight_norm(layer, dim=dim)


def _pruned(layer: nn.Module) -> nn.Module:
    prune.random_unstructured(layer, "weight", 0.3)  # type: ignore[no-untyped-call]
    return layer


def _registered(layer: nn.Module) -> nn.Module:
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


PARAMETRIZATIONS: dict[str, Case] = {
    "weight_norm": lambda: (parametrizations.weight_norm(nn.Linear(3, 4)), _x(2, 3)),
    "weight_norm of a convolution": lambda: (
        parametrizations.weight_norm(nn.Conv2d(2, 3, 2)),
        _x(2, 2, 3, 3),
    ),
    "weight_norm of columns": lambda: (
        parametrizations.weight_norm(nn.Linear(3, 4), dim=1),
        _x(2, 3),
    ),
    "weight_norm of the whole": lambda: (
        parametrizations.weight_norm(nn.Linear(3, 4), dim=None),  # type: ignore[arg-type]
        _x(2, 3),
    ),
    "old weight_norm": lambda: (_old_weight_norm(nn.Linear(3, 4)), _x(2, 3)),
    "old weight_norm of the whole": lambda: (_old_weight_norm(nn.Linear(3, 4), None), _x(2, 3)),
    "spectral_norm": lambda: (parametrizations.spectral_norm(nn.Linear(3, 4)), _x(2, 3)),
    "spectral_norm of a convolution": lambda: (
        parametrizations.spectral_norm(nn.Conv2d(2, 3, 2)),
        _x(2, 2, 3, 3),
    ),
    "old spectral_norm": lambda: (torch.nn.utils.spectral_norm(nn.Linear(3, 4)), _x(2, 3)),
    **{
        f"orthogonal by {name}": lambda name=name: (  # type: ignore[misc]
            parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map=name),
            _x(2, 3),
        )
        for name in ("matrix_exp", "cayley", "householder")
    },
    "pruned": lambda: (_pruned(nn.Linear(3, 4)), _x(2, 3)),
    "a parametrization of one's own": lambda: (_registered(nn.Linear(3, 3)), _x(2, 3)),
}


# Classes of `torch.nn` that hold no parameters of their own: containers and bases.
_WITHOUT = {"Module", "ModuleList", "Sequential", "ParameterDict", "ParameterList", "Unflatten"}
_BASES = {"RNNBase", "RNNCellBase"}


def parametrized_types() -> set[str]:
    """The names of all public layer types of `torch.nn` that hold parameters."""
    kinds = {name: kind for name, kind in vars(nn).items() if inspect.isclass(kind)}
    return {
        name
        for name, kind in kinds.items()
        if issubclass(kind, nn.Module)
        and not name.startswith("Lazy")
        and name not in _WITHOUT | _BASES
        and any(
            part in _classes(kind.__module__)[kind.__name__] for part in ("Parameter", "Linear(")
        )
    }


@functools.cache
def _classes(module: str) -> dict[str, str]:
    """The source of every class of a module, which is parsed once."""
    text = inspect.getsource(sys.modules[module])
    lines = text.splitlines()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes}


def network(name: str, *, seed: int = 0) -> tuple[nn.Module, tuple[Any, Tensor]]:
    """The small network around a layer, and its batch."""
    torch.manual_seed(seed)
    layer, inputs = {**LAYERS, **PARAMETRIZATIONS}[name]()
    model = Wrapped(layer).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return model, (given, torch.randn(3, dtype=torch.float64))
