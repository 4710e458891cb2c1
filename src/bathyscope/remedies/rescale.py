"""Remedies of the second level that keep the weights' directions, or set them to solved values."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt, field_validator
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.procrustes import procrustes_
from bathyscope.remedies.remedy import ChangeLevel, Remedy, python_list, python_string, submodule


class ScaleWeights(Remedy):
    """Weight and bias of some layers times a factor each: to unit variance, by depth, or to zero."""

    name: Literal["scale-weights"] = "scale-weights"
    factors: dict[str, float]
    purpose: str = "weights scaled"
    level: ClassVar[ChangeLevel] = "weights"

    @property
    def description(self) -> str:
        """What it is for, and of how many layers."""
        return f"{self.purpose} ({len(self.factors)} layers)"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Multiply them."""
        layers = {name: submodule(model, name) for name in self.factors}
        change = Change(self.description, tuple(layers))
        with torch.no_grad():
            for name, factor in self.factors.items():
                for parameter in layers[name].parameters(recurse=False):
                    change.keep(parameter)
                    parameter.mul_(factor)
        return change

    def code(self) -> str:
        """A dict of factors and a loop over it."""
        values = set(self.factors.values())
        if len(values) == 1:
            head = f"scaled = {python_list(tuple(self.factors))}\n"
            loop, factor = "for name in scaled:", repr(values.pop())
        else:
            rows = "".join(
                f"    {python_string(name)}: {value!r},\n" for name, value in self.factors.items()
            )
            head = f"factors = {{\n{rows}}}\n"
            loop, factor = "for name, factor in factors.items():", "factor"
        return (
            f"{head}with torch.no_grad():\n    {loop}\n"
            "        for parameter in model.get_submodule(name).parameters(recurse=False):\n"
            f"            parameter.mul_({factor})\n"
        )


class SetWeights(Remedy):
    """Some parameters set to given values, such as prediction weights that were solved for."""

    name: Literal["set-weights"] = "set-weights"
    values: dict[str, object]
    purpose: str = "weights set"
    level: ClassVar[ChangeLevel] = "weights"

    @field_validator("values")
    @classmethod
    def _holds_finite_numbers(cls, values: dict[str, object]) -> dict[str, object]:
        for name, nested in values.items():
            try:
                tensor = torch.tensor(nested, dtype=torch.float64, device="cpu")
            except (TypeError, ValueError) as error:
                raise ValueError(f"the values of {name} are not nested lists of numbers") from error
            if not bool(tensor.isfinite().all()):
                raise ValueError(f"the values of {name} are non-finite")
        return values

    @property
    def description(self) -> str:
        """What it is for, and which parameters."""
        return f"{self.purpose} ({', '.join(self.values)})"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Write the values."""
        parameters = dict(model.named_parameters(remove_duplicate=False))
        for name, nested in self.values.items():
            wanted = tuple(torch.tensor(nested, device="cpu").shape)
            if name not in parameters or tuple(parameters[name].shape) != wanted:
                raise UsageError(
                    f"The network has no parameter {name!r} of shape {wanted}; "
                    "the recipe was made for another one."
                )
        change = Change(self.description, tuple(self.values))
        with torch.no_grad():
            for name, nested in self.values.items():
                change.keep(parameters[name])
                parameters[name].copy_(torch.tensor(nested, dtype=torch.float64, device="cpu"))
        return change

    def code(self) -> str:
        """The values as they are."""
        lines = "".join(
            f"    values = torch.tensor({nested!r}, dtype=torch.float64)\n"
            f"    model.get_parameter({python_string(name)}).copy_(values)\n"
            for name, nested in self.values.items()
        )
        return f"with torch.no_grad():\n{lines}"


class ProjectTransitions(Remedy):
    """The Procrustes projection of some layers, at once and after every k-th step."""

    name: Literal["project-transitions"] = "project-transitions"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    every: PositiveInt = 2
    level: ClassVar[ChangeLevel] = "weights"

    @property
    def description(self) -> str:
        """In words."""
        return f"Procrustes projection of the transitions ({', '.join(self.layers)})"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Project the layers and hook the optimizer's step."""
        layers = {name: submodule(model, name) for name in self.layers}
        change = Change(self.description, self.layers)
        for layer in layers.values():
            change.keep(*layer.parameters(recurse=False))
        handle = procrustes_(optimizer, layers, every=self.every)
        handle.project()
        return change.undone_by(handle.remove)

    def code(self) -> str:
        """The call of the library."""
        return (
            f"projected = {python_list(self.layers)}\n"
            "handle = bathyscope.remedies.procrustes_(\n"
            f"    optimizer, [model.get_submodule(name) for name in projected], every={self.every}\n"
            ")\n"
            "handle.project()\n"
        )
