"""The weight matrices and kernels inside a block."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from bathyscope.core.calls import unwrap
from bathyscope.core.members import Members, members_of
from bathyscope.core.nested import main_tensor
from bathyscope.core.preserve import one_at_a_time
from bathyscope.core.records import Block

_CONVOLUTION = nn.modules.conv._ConvNd


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

    A parametrised weight (spectral or weight norm) is taken as the layer applies it.

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
    found: dict[int, tuple[str, nn.Parameter]] = {}
    for name, module in members_of(model).of(block).items():
        for own, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(id(parameter), (f"{name}.{own}" if name else own, parameter))
    return dict(found.values())


@contextmanager
def input_sizes(model: nn.Module) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Within, every pass writes down the image size that each convolution last read, by name."""
    sizes: dict[str, tuple[int, ...]] = {}
    handles = []

    def written(name: str) -> Callable[[nn.Module, tuple[object, ...], dict[str, object]], None]:
        def hook(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            x = main_tensor(args) if args else main_tensor(kwargs)
            if x is not None:
                sizes[name] = tuple(x.shape[2:])

        return hook

    with one_at_a_time():
        try:
            for name, module in unwrap(model).named_modules():
                if isinstance(module, _CONVOLUTION):
                    hook = module.register_forward_pre_hook(written(name), with_kwargs=True)
                    handles.append(hook)
            yield sizes
        finally:
            for handle in handles:
                handle.remove()


def _layers(name: str, module: nn.Module) -> Iterator[WeightLayer]:
    if isinstance(module, ParametrizationList) or ".parametrizations." in f".{name}.":
        return
    if isinstance(module, (nn.Linear, _CONVOLUTION)):
        convolution = module if isinstance(module, _CONVOLUTION) else None
        yield WeightLayer(name, module.weight.detach(), convolution)
        return
    for own, parameter in module.named_parameters(recurse=False):
        if parameter.ndim >= 2:
            yield WeightLayer(f"{name}.{own}" if name else own, parameter.detach())
