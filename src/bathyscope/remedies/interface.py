"""Remedies where the network meets data and loss: what it reads, and what it answers with."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import Edit, StructureRemedy, python_list, python_string, submodule


class _Pairs:
    """Shifts with their scales."""

    def __init__(self, shift: tuple[float, ...], scale: tuple[float, ...]) -> None:
        if len(shift) != len(scale):
            raise UsageError(
                f"There are as many shifts as scales, but {len(shift)} and {len(scale)} were given."
            )
        self.values = torch.tensor([shift, scale], device="cpu")


class StandardizeInputs(StructureRemedy):
    """(x − shift)/scale of what the network reads, one number per column or channel, or one for all."""

    name: Literal["standardize-inputs"] = "standardize-inputs"
    shift: Annotated[tuple[float, ...], Field(min_length=1)]
    scale: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]

    @property
    def description(self) -> str:
        """In words."""
        if len(self.scale) > 1:
            return f"inputs standardized, {len(self.scale)} columns or channels"
        return f"inputs standardized: (x − {self.shift[0]:.3g})/{self.scale[0]:.3g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the model."""
        change = Change(self.description)
        change.add_hooks().before_forward(model, _Standardize(self.shift, self.scale))
        return change

    def code(self) -> str:
        """A hook before the model, as (x - shift) / scale in its forward."""
        return (
            "def standardize(module, args):\n"
            "    if not args or not args[0].is_floating_point():\n"
            "        return args\n"
            f"    values = torch.tensor({[list(self.shift), list(self.scale)]!r}).to(args[0])\n"
            "    shift, scale = values.reshape(2, -1, *[1] * (args[0].ndim - 2))\n"
            "    return ((args[0] - shift) / scale, *args[1:])\n"
            "model.register_forward_pre_hook(standardize)\n"
        )


class _Standardize(_Pairs):
    def __call__(self, module: nn.Module, args: tuple[object, ...]) -> tuple[object, ...] | None:
        if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
            return None
        x = args[0]
        shift, scale = self.values.to(x).reshape(2, -1, *[1] * (x.ndim - 2))
        return ((x - shift) / scale, *args[1:])


class ScaleOutputs(StructureRemedy):
    """output · scale + shift of what the network answers, one number for each column or one for all."""

    name: Literal["scale-outputs"] = "scale-outputs"
    shift: Annotated[tuple[float, ...], Field(min_length=1)]
    scale: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]

    @property
    def description(self) -> str:
        """In words."""
        if len(self.scale) > 1:
            return f"outputs in units of the targets, {len(self.scale)} columns"
        return f"outputs in units of the targets: {self.scale[0]:.3g} y + {self.shift[0]:.3g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the model."""
        change = Change(self.description)
        change.add_hooks().after_forward(model, _Stretch(self.shift, self.scale))
        return change

    def code(self) -> str:
        """A hook behind the model, as y * scale + shift in its forward."""
        return (
            "def stretch(module, args, y):\n"
            f"    shift, scale = torch.tensor({[list(self.shift), list(self.scale)]!r}).to(y)\n"
            "    return y * scale + shift\n"
            "model.register_forward_hook(stretch)\n"
        )


class _Stretch(_Pairs):
    def __call__(self, module: nn.Module, args: object, output: object) -> Tensor | None:
        if not isinstance(output, Tensor):
            return None
        shift, scale = self.values.to(output)
        stretched: Tensor = output * scale + shift
        return stretched


class DropActivation(StructureRemedy):
    """One activation taken out, such as a softmax before a loss that takes the softmax itself."""

    name: Literal["drop-activation"] = "drop-activation"
    layer: str

    @property
    def description(self) -> str:
        """In words."""
        return f"activation {self.layer} dropped"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Put an identity in its place."""
        return _put_(model, self.layer, nn.Identity(), self.description)

    def code(self) -> str:
        """One line."""
        return f"model.set_submodule({python_string(self.layer)}, nn.Identity())\n"


class ReplaceActivation(StructureRemedy):
    """The activation at the end replaced by the one that the loss wants."""

    name: Literal["replace-activation"] = "replace-activation"
    layer: str
    kind: Literal["sigmoid", "softmax"]

    @property
    def description(self) -> str:
        """In words."""
        return f"activation {self.layer} replaced by a {self.kind}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Put the other one in its place."""
        return _put_(model, self.layer, _ENDS[self.kind](), self.description)

    def code(self) -> str:
        """One line."""
        end = {"sigmoid": "nn.Sigmoid()", "softmax": "nn.Softmax(dim=-1)"}[self.kind]
        return f"model.set_submodule({python_string(self.layer)}, {end})\n"


_ENDS: dict[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "softmax": partial(nn.Softmax, dim=-1),
}


def _put_(model: nn.Module, layer: str, activation: nn.Module, text: str) -> Change:
    """Put an activation in the place of another."""
    if not layer or next(submodule(model, layer).parameters(), None) is not None:
        raise UsageError(
            f"{layer!r} is not an activation that could be replaced: it has parameters."
        )
    change = Change(text, (layer,))
    change.replace_module_(model, layer, activation)
    return change


def rectify_(model: nn.Module, layers: list[str]) -> list[RemovableHandle]:
    """Put a ReLU behind each of these layers."""
    return [
        model.get_submodule(name).register_forward_hook(lambda module, args, out: torch.relu(out))
        for name in layers
    ]


class AddActivations(StructureRemedy):
    """A ReLU behind each of some layers: linear maps with nothing between them are one linear map."""

    name: Literal["add-activations"] = "add-activations"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    helpers: ClassVar = (rectify_,)

    @property
    def description(self) -> str:
        """In words."""
        return f"a ReLU behind {len(self.layers)} layer{'s' * (len(self.layers) != 1)}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Hook the layers."""
        for name in self.layers:
            submodule(model, name)
        change = Change(self.description, self.layers)
        for handle in rectify_(model, list(self.layers)):
            change.undone_by(handle.remove)
        return change

    def code(self) -> str:
        """A call of the helper."""
        return f"rectify_(model, {python_list(self.layers)})\n"

    def edits(self, model: nn.Module) -> dict[str, Edit]:
        """A ReLU around what each layer gives out."""
        return dict.fromkeys(self.layers, Edit("Rectified", after="torch.relu({})"))
