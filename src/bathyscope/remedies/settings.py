"""Remedies of the first level: what the optimizer does, the network left as it is."""

from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import nn
from torch.utils.hooks import RemovableHandle

from bathyscope.core.errors import UsageError
from bathyscope.core.hooks import Hooks
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import ChangeLevel, Remedy


def clip_before_each_step_(optimizer: torch.optim.Optimizer, norm: float) -> Hooks:
    """Cut the gradient of all parameters together to this norm before every step."""

    def clip(held: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        nn.utils.clip_grad_norm_([p for g in held.param_groups for p in g["params"]], norm)

    hooks = Hooks()
    hooks.before_step(optimizer, clip)
    return hooks


def warm_up_(optimizer: torch.optim.Optimizer, steps: int) -> list[RemovableHandle]:
    """Let the learning rates rise linearly over the first steps; after each they are as they were."""
    rates: list[float] = []
    done = [0]

    def lower(held: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        done[0] += 1
        rates[:] = [group["lr"] for group in held.param_groups]
        for group in held.param_groups:
            group["lr"] = group["lr"] * min(1.0, done[0] / steps)

    def put_back(held: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        for group, rate in zip(held.param_groups, rates, strict=True):
            group["lr"] = rate

    return [optimizer.register_step_pre_hook(lower), optimizer.register_step_post_hook(put_back)]


class ScaleRate(Remedy):
    """Every learning rate of the optimizer times a factor."""

    name: Literal["scale-rate"] = "scale-rate"
    factor: PositiveFloat
    level: ClassVar[ChangeLevel] = "settings"

    @property
    def description(self) -> str:
        """For instance `learning rate × 0.1`."""
        return f"learning rate × {self.factor:g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Multiply the rates."""
        change = Change(self.description)
        for group in _groups_with("lr", optimizer):
            change.keep_value(group, "lr")
            group["lr"] = group["lr"] * self.factor
        return change

    def code(self) -> str:
        """A loop over the groups."""
        return f'for group in optimizer.param_groups:\n    group["lr"] *= {self.factor!r}\n'


class DecayWeights(Remedy):
    """Another weight decay."""

    name: Literal["decay-weights"] = "decay-weights"
    value: NonNegativeFloat
    level: ClassVar[ChangeLevel] = "settings"

    @property
    def description(self) -> str:
        """For instance `weight decay 0.01`."""
        return f"weight decay {self.value:g}" if self.value else "no weight decay"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Set the decay of every group."""
        change = Change(self.description)
        for group in _groups_with("weight_decay", optimizer):
            change.keep_value(group, "weight_decay")
            group["weight_decay"] = self.value
        return change

    def code(self) -> str:
        """A loop over the groups."""
        return f'for group in optimizer.param_groups:\n    group["weight_decay"] = {self.value!r}\n'


class ClipGradient(Remedy):
    """The gradient of all parameters together cut to a norm before every step."""

    name: Literal["clip-gradient"] = "clip-gradient"
    norm: PositiveFloat
    level: ClassVar[ChangeLevel] = "settings"

    @property
    def description(self) -> str:
        """For instance `gradient clipped to norm 1`."""
        return f"gradient clipped to norm {self.norm:g}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Hook the optimizer's step."""
        return Change(self.description).undone_by(
            clip_before_each_step_(optimizer, self.norm).remove
        )

    def code(self) -> str:
        """A hook on the optimizer's step."""
        return (
            "def clip(optimizer, args, kwargs):  # or call it in the loop, before optimizer.step()\n"
            '    held = [p for group in optimizer.param_groups for p in group["params"]]\n'
            f"    nn.utils.clip_grad_norm_(held, {self.norm!r})\n"
            "optimizer.register_step_pre_hook(clip)\n"
        )


class WarmUp(Remedy):
    """Learning rates that rise linearly over the first steps.

    A rate is lowered before each step and put back after it: a schedule of the user's sees its own.
    """

    name: Literal["warm-up"] = "warm-up"
    steps: PositiveInt
    level: ClassVar[ChangeLevel] = "settings"
    helpers: ClassVar = (warm_up_,)

    @property
    def description(self) -> str:
        """For instance `warm-up over 50 steps`."""
        return f"warm-up over {self.steps} steps"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Hook the optimizer's step."""
        _groups_with("lr", optimizer)
        change = Change(self.description)
        for handle in warm_up_(optimizer, self.steps):
            change.undone_by(handle.remove)
        return change

    def code(self) -> str:
        """A call of the helper."""
        return f"warm_up_(optimizer, {self.steps!r})\n"


class ReplaceOptimizer(Remedy):
    """Another optimizer over all parameters of the model that are trained."""

    name: Literal["replace-optimizer"] = "replace-optimizer"
    kind: Literal["sgd", "adam", "adamw"] = "adam"
    lr: PositiveFloat = 3e-3
    momentum: NonNegativeFloat = 0.9
    weight_decay: NonNegativeFloat = 0.0
    level: ClassVar[ChangeLevel] = "settings"

    @property
    def description(self) -> str:
        """For instance `Adam at 0.003`."""
        decay = f" with weight decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"{_CLASSES[self.kind].__name__} at {self.lr:g}{decay}"

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Make the optimizer; the one given stays as it is."""
        return Change(
            self.description, optimizer=_CLASSES[self.kind](_trainable(model), **self._options())
        )

    def code(self) -> str:
        """The line that makes it."""
        options = ", ".join(f"{key}={value!r}" for key, value in self._options().items())
        held = "[p for p in model.parameters() if p.requires_grad]"
        return f"optimizer = torch.optim.{_CLASSES[self.kind].__name__}({held}, {options})\n"

    def _options(self) -> dict[str, float]:
        first = {"momentum": self.momentum} if self.kind == "sgd" else {}
        return {"lr": self.lr, **first, "weight_decay": self.weight_decay}


_CLASSES: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


def _trainable(model: nn.Module) -> list[nn.Parameter]:
    result = [p for p in model.parameters() if p.requires_grad]
    if not result:
        raise UsageError(
            "No parameter of the model requires a gradient; unfreeze those that are to be trained."
        )
    return result


def _groups_with(key: str, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The optimizer's groups, each of which has this setting.

    Raises:
        UsageError: it has no such setting.
    """
    if any(key not in group for group in optimizer.param_groups):
        raise UsageError(
            f"{type(optimizer).__name__} has no setting {key!r} to change; give an optimizer that has."
        )
    return optimizer.param_groups
