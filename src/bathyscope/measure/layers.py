"""The layers inside a block: weight matrices, kernels and norms."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of, unwrap
from bathyscope.core.devices import is_packed
from bathyscope.core.fetch import fetch
from bathyscope.core.global_state import one_at_a_time
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import main_tensor
from bathyscope.core.probe import aside
from bathyscope.core.records import Block, Measurement
from bathyscope.core.walks import named_modules
from bathyscope.measure.rows import Rows

_CONVOLUTION = nn.modules.conv._ConvNd
WEIGHT_LAYERS = (nn.Linear, _CONVOLUTION)
"""Layers whose `weight` is read as they apply it, also where a parametrization computes it."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightLayer:
    """A weight with at least two axes, its name, and the convolution it belongs to, if any."""

    name: str
    weight: Tensor
    convolution: nn.Module | None = None

    @property
    def has_extent(self) -> bool:
        """Whether it is a convolution that is more than a matrix applied at every position."""
        kernel = self.weight.shape[2:]
        groups = getattr(self.convolution, "groups", 1)
        return self.convolution is not None and (math.prod(kernel) > 1 or groups > 1)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the weight's axes: a kernel's are outputs, inputs, height and width."""
        rest = self.weight.ndim - 2
        spatial = {0: (), 1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
        return (
            "outputs",
            "inputs",
            *spatial.get(rest, tuple(f"axis {i + 2}" for i in range(rest))),
        )

    def side(self, axis: int) -> int:
        """How many singular values the unfolding by an axis has."""
        return min(self.weight.shape[axis], self.weight.numel() // max(1, self.weight.shape[axis]))


def layers_of(model: nn.Module | Members, block: Block) -> list[WeightLayer]:
    """Weights of a block that are matrices or kernels; norms and biases are left out.

    A parametrized weight (spectral or weight norm) is taken as the layer applies it, a packed one left out.

    Examples:
        >>> mlp = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
        >>> [layer.name for layer in layers_of(mlp, Block(index=0, name="0", end="2", kind=""))]
        ['0']
    """
    return [
        layer
        for name, module in members_of(model).of(block).items()
        for layer in _layers(name, module)
    ]


def parameters_of(model: nn.Module | Members, block: Block) -> dict[str, nn.Parameter]:
    """Parameters of a block by their names in the model; one that is shared appears once.

    Examples:
        >>> mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        >>> list(parameters_of(mlp, Block(index=0, name="0", end="1", kind="")))
        ['0.weight', '0.bias']
    """
    result: dict[int, tuple[str, nn.Parameter]] = {}
    for name, module in members_of(model).of(block).items():
        for own, parameter in module._parameters.items():
            if parameter is not None:
                result.setdefault(id(parameter), (f"{name}.{own}" if name else own, parameter))
    return dict(result.values())


@contextmanager
def input_sizes(model: nn.Module) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Within, every pass writes down the image size that each convolution last read, by name."""
    sizes: dict[str, tuple[int, ...]] = {}

    def written(name: str) -> Callable[[nn.Module, tuple[object, ...], dict[str, object]], None]:
        def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            x = main_tensor(args) if args else main_tensor(kwargs)
            if x is not None:
                sizes[name] = tuple(x.shape[2:])

        return hook

    with one_at_a_time(), Hooks() as hooks:
        for name, module in named_modules(unwrap(model)).items():
            if isinstance(module, _CONVOLUTION):
                hooks.before_forward(module, written(name), with_kwargs=True)
        yield sizes


def _layers(name: str, module: nn.Module) -> Iterator[WeightLayer]:
    if isinstance(module, ParametrizationList) or ".parametrizations." in f".{name}.":
        return
    if isinstance(module, WEIGHT_LAYERS):
        convolution = module if isinstance(module, _CONVOLUTION) else None
        if not is_packed(module.weight):
            yield WeightLayer(name, module.weight.detach(), convolution)
        return
    for own, parameter in module.named_parameters(recurse=False):
        if parameter.ndim >= 2 and not is_packed(parameter):
            yield WeightLayer(f"{name}.{own}" if name else own, parameter.detach())


# Below this fraction of the mean square the difference has lost too many digits of float32.
_CANCELLATION = 1e-3
_BATCH_NORM = nn.modules.batchnorm._BatchNorm


class NormInputs:
    """Median variance over channels of what each batch norm was given, in units of its ε."""

    def __init__(self) -> None:
        self.medians: dict[str, tuple[Tensor, float]] = {}

    @property
    def variance(self) -> dict[str, float]:
        """By the name of the norm; all of them come from an accelerator in one transfer."""
        numbers = fetch([median for median, _ in self.medians.values()])
        named = zip(self.medians.items(), numbers, strict=True)
        return {name: number / epsilon for (name, (_, epsilon)), (number,) in named}

    def measurement(self, model: nn.Module, blocks: Blocks) -> Measurement:
        """The measurement `normalization`.

        Columns, one value per block:
            variance_over_epsilon: the smallest of its batch norms. y = (x − mean)/√(variance + ε)
                normalizes only where this is well above 1; None without a batch norm.
            layer: the norm it belongs to.
        """
        rows = Rows(blocks, ("variance_over_epsilon", "layer"))
        members = members_of(model)
        variance = self.variance
        for block in blocks:
            result = [(variance[n], n) for n in members.of(block) if n in variance]
            if result:
                value, layer = min(result)
                rows.put(block, variance_over_epsilon=value, layer=layer)
        return rows.measurement("normalization")


@contextmanager
def norm_inputs(model: nn.Module) -> Iterator[NormInputs]:
    """Within, every pass writes down the variance that each batch norm works with.

    In train mode this is the batch's, in eval mode the running one.

    Examples:
        >>> norm = nn.Sequential(nn.BatchNorm1d(2))
        >>> with norm_inputs(norm) as seen:
        ...     _ = norm(torch.tensor([[0.0, 0.0], [2.0, 2e-4]]))
        >>> round(seen.variance["0"] * 1e-5, 4)
        0.0
    """
    seen = NormInputs()

    def written(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            assert isinstance(module, _BATCH_NORM)
            with aside():
                if module.training or module.running_var is None:
                    variance = channel_variances(args[0])
                else:
                    variance = module.running_var
                seen.medians[name] = (variance.median(), module.eps)

        return hook

    with one_at_a_time(), Hooks() as hooks:
        for name, module in named_modules(unwrap(model)).items():
            if isinstance(module, _BATCH_NORM):
                hooks.before_forward(module, written(name))
        yield seen


def channel_variances(x: Float[Tensor, " n c *image"]) -> Float[Tensor, " c"]:
    """Variance of each channel over samples and positions, divided by their number.

    E x² − (E x)² from sums along images and then samples: torch's own variance over several axes
    takes twenty times as long. Where the difference cancels, torch's is taken after all; so it is on an
    accelerator, where to look for that would make the host wait.

    Examples:
        >>> channel_variances(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
        tensor([1., 0.])
    """
    rows = x.float().flatten(2) if x.ndim > 2 else x.float().unsqueeze(2)
    if rows.device.type != "cpu":
        return rows.var((0, 2), correction=0)
    count = rows.shape[0] * rows.shape[2]
    mean = rows.sum(2).sum(0) / count
    square = torch.linalg.vector_norm(rows, dim=2).square().sum(0) / count
    variance = square - mean**2
    if bool((variance <= _CANCELLATION * square).any()):
        return rows.var((0, 2), correction=0)
    result: Tensor = variance
    return result
