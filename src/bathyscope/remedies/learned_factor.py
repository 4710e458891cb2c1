"""LayerScale and ReZero: learned factors of what the branches of a residual network give out."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.remedies.change import Change
from bathyscope.remedies.remedy import StructureRemedy, python_list, submodule


def times_factor(module: nn.Module, args: object, output: object) -> object:
    """What a module gives out, its first tensor times the parameter `branch_factor`."""
    factor = module.get_parameter("branch_factor")
    if isinstance(output, tuple):
        return (factor * output[0], *output[1:])
    if not isinstance(output, Tensor):
        raise TypeError("A learned factor is for a module that gives out a tensor or a tuple.")
    return factor * output


def _add_factors(
    modules: list[nn.Module], optimizer: torch.optim.Optimizer, size: int, start: float
) -> None:
    """Give every module a factor from `start` on; one group of the optimizer holds them all.

    The group has the settings of the first one, but no weight decay, which would pull branches to zero.
    """
    factors = []
    for module in modules:
        like = next(module.parameters())
        factors.append(nn.Parameter(torch.full((size,), start, device="cpu").to(like)))
        module.register_parameter("branch_factor", factors[-1])
    settings = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    if "weight_decay" in settings:
        settings["weight_decay"] = 0.0
    optimizer.add_param_group({**settings, "params": factors})


_TIMES_FACTOR = '''\
def times_factor(module, args, y):
    """As x + self.branch_factor * branch(x) in a forward of your own."""
    if isinstance(y, tuple):
        return (module.branch_factor * y[0], *y[1:])
    return module.branch_factor * y
'''


class LearnFactors(StructureRemedy):
    """What some modules at the end of branches give out times a learned factor: x + λ ⊙ f(x).

    With one factor a feature, from a small start, it is LayerScale (Touvron et al. 2021); with a single
    factor from zero ReZero (Bachlechner et al. 2020). The factors are parameters `branch_factor` of the
    modules and in the optimizer; every other name stays as it was.
    """

    name: Literal["learn-factors"] = "learn-factors"
    layers: Annotated[tuple[str, ...], Field(min_length=1)]
    size: PositiveInt = 1
    start: float = 0.0
    helpers: ClassVar = (_TIMES_FACTOR,)

    @property
    def description(self) -> str:
        """For instance `LayerScale from 0.1 on 48 branches`."""
        kind = "LayerScale" if self.size > 1 else "ReZero" if self.start == 0 else "Learned factors"
        start = "" if kind == "ReZero" else f" from {self.start:g}"
        return f"{kind}{start} on {len(self.layers)} branches"

    @property
    def num_added(self) -> int:
        """One product a branch."""
        return len(self.layers)

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Add the factors to the modules and to the optimizer."""
        layers = {name: submodule(model, name) for name in dict.fromkeys(self.layers)}
        for name, layer in layers.items():
            if next(layer.parameters(), None) is None or hasattr(layer, "branch_factor"):
                raise UsageError(
                    f"The branch {name!r} ({type(layer).__name__}) can have no learned factor: it has "
                    "one already, or no parameter; take it out of the recipe."
                )
        change = Change(self.description, self.layers)
        _add_factors(list(layers.values()), optimizer, self.size, self.start)
        hooks = change.add_hooks()
        for layer in layers.values():
            hooks.after_forward(layer, times_factor)
            change.undone_by(_factor_taken_from(layer))
        return change.undone_by(_group_taken_from(optimizer))

    def code(self) -> str:
        """A loop that adds the factors, and a group of the optimizer for them."""
        return (
            "factors = []\n"
            f"for name in {python_list(self.layers)}:\n"
            "    module = model.get_submodule(name)\n"
            f'    values = torch.full(({self.size},), {self.start!r}, device="cpu")\n'
            "    module.branch_factor = nn.Parameter(values.to(next(module.parameters())))\n"
            "    factors.append(module.branch_factor)\n"
            "    module.register_forward_hook(times_factor)\n"
            'settings = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}\n'
            'settings |= {"params": factors, "weight_decay": 0.0}  # which would pull branches to zero\n'
            "optimizer.add_param_group(settings)\n"
        )


def _factor_taken_from(layer: nn.Module) -> Callable[[], None]:
    def take() -> None:
        del layer.branch_factor

    return take


def _group_taken_from(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    group = optimizer.param_groups[-1]

    def take() -> None:
        optimizer.param_groups[:] = [held for held in optimizer.param_groups if held is not group]
        for factor in group["params"]:
            optimizer.state.pop(factor, None)

    return take
