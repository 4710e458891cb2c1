"""Remedies that rewrite the weights of blocks: scale, re-initialise, zero the end of a branch."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from bathyscope.core import Block
from bathyscope.core.members import modules_of, weighted_layers
from bathyscope.inits import SCHEMES
from bathyscope.remedies.change import Change


def scale_(model: nn.Module, factors: Mapping[Block, float]) -> Change:
    """Multiply the last layer of each block (weight and bias) by a factor.

    The last layer is the last module of the block with a weight, a norm included, so that the factor
    acts on what the block, or its residual branch, gives out and no later norm undoes it.
    """
    change = Change("scaled", tuple(b.label for b in factors))
    with torch.no_grad():
        for block, factor in factors.items():
            layer = last_layer(model, block)
            if layer is None:
                continue
            for parameter in layer.parameters(recurse=False):
                change.keeping(parameter)
                parameter.mul_(factor)
    return change


def zero_last_layers_(model: nn.Module, blocks: Iterable[Block]) -> Change:
    """Zero the last layer of the given residual blocks, so that they start as their shortcuts."""
    chosen = list(blocks)
    change = scale_(model, dict.fromkeys(chosen, 0.0))
    change.what = "zeroed the last layer of the branch"
    return change


def reinitialise_(
    model: nn.Module,
    blocks: Iterable[Block],
    *,
    scheme: str = "he",
    generator: torch.Generator | None = None,
) -> Change:
    """Draw the weights of the given blocks anew; norms start at one and zero."""
    chosen = list(blocks)
    change = Change(f"re-initialised ({scheme})", tuple(b.label for b in chosen))
    for block in chosen:
        change.keeping(*_parameters_of(model, block))
        for layer in weighted_layers(model, block).values():
            SCHEMES[scheme](layer, generator=generator)
        for module in modules_of(model, block).values():
            if _is_norm(module):
                module.reset_parameters()  # type: ignore[operator]
    return change


def last_layer(model: nn.Module, block: Block) -> nn.Module | None:
    """The last module of a block that has a weight, on its branch where it names one."""
    modules = modules_of(model, block)
    branch = f"{block.name}.branch"
    if branch in modules:
        modules = {n: m for n, m in modules.items() if n == branch or n.startswith(f"{branch}.")}
    # a projection on the shortcut is no part of the branch, whatever it is called
    aside = ("shortcut", "downsample", "skip", "proj_shortcut")
    named = [
        m
        for n, m in modules.items()
        if isinstance(getattr(m, "weight", None), Tensor)
        and not any(a in n.split(".") for a in aside)
    ]
    return named[-1] if named else None


def _parameters_of(model: nn.Module, block: Block) -> list[nn.Parameter]:
    found = {
        id(p): p for m in modules_of(model, block).values() for p in m.parameters(recurse=False)
    }
    return list(found.values())


def _is_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1 and hasattr(module, "reset_parameters")
