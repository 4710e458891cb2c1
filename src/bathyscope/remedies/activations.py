"""The remedy of the third level: other activations in the same architecture."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import ChangeLevel, Remedy, python_list, submodule
from bathyscope.remedies.tailored import ACTIVATIONS, TailoredReLU


class TailorActivations(Remedy):
    """Activations replaced by rectifiers whose slope is tailored to the depth (`tailored_slope`).

    They need a start and a rate that fit: orthogonal weights of gain one, and SGD at 0.001 to 0.003.
    """

    name: Literal["tailor-activations"] = "tailor-activations"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    slope: Annotated[float, Field(ge=0, le=1)]
    level: ClassVar[ChangeLevel] = "activations"
    in_weights: ClassVar[bool] = False
    helpers: ClassVar = (TailoredReLU,)

    @property
    def description(self) -> str:
        """For instance `50 activations tailored, slope 0.43`."""
        return f"{len(self.layers)} activations tailored, slope {self.slope:.3g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Change:
        """Put the rectifiers in their places."""
        for name in self.layers:
            result = submodule(model, name)
            if not isinstance(result, ACTIVATIONS):
                raise UsageError(
                    f"{name!r} is a {type(result).__name__} and no activation that could be tailored."
                )
        change = Change(self.description, self.layers)
        for name in self.layers:
            mode = model.get_submodule(name).training
            change.replace_module_(model, name, TailoredReLU(self.slope).train(mode))
        return change

    def code(self) -> str:
        """A loop over the activations."""
        return (
            f"for name in {python_list(self.layers)}:\n"
            f"    model.set_submodule(name, TailoredReLU({self.slope!r}))\n"
        )


def activation_names(model: nn.Module) -> tuple[str, ...]:
    """The activation modules of a network, by name; one that is used in two places twice."""
    named = model.named_modules(remove_duplicate=False)
    return tuple(name for name, module in named if name and isinstance(module, ACTIVATIONS))
