"""Weights that are still as their initializer draws them, among those that are frozen."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap

_ENTRIES = 256
"""Entries that are needed to show a distribution: the standard error of a standard deviation is then 4 %."""
_MOST_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class FreshWeights:
    """Layers whose weights have exactly the distribution that their class starts with.

    Attributes:
        frozen: names of layers that are frozen and fresh.
        frozen_layers: how many layers with enough weights to be judged are frozen.
    """

    frozen: tuple[str, ...]
    frozen_layers: int


def fresh_weights(model: nn.Module) -> FreshWeights:
    """Which frozen layers still have the weights of torch's initializers, judged by their distribution.

    Linear and convolution layers start uniform in ±1/√fan_in, embeddings start normal (0, 1); networks of
    transformers start normal (0, `config.initializer_range`). Training leaves neither shape nor scale as
    they were: a uniform distribution has kurtosis 1.8 and a sharp edge.

    Examples:
        >>> net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        >>> _ = net[0].requires_grad_(False)
        >>> fresh_weights(net).frozen
        ('0',)
        >>> with torch.no_grad():
        ...     _ = net[0].weight.mul_(1.3)  # as trained
        >>> fresh_weights(net).frozen
        ()
    """
    model = unwrap(model)
    scale = getattr(getattr(model, "config", None), "initializer_range", None)
    normal = float(scale) if isinstance(scale, (int, float)) and scale > 0 else None
    states: dict[str, bool] = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.requires_grad:
            continue
        if weight.numel() >= _ENTRIES and weight.ndim >= 2:
            known = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding)
            if isinstance(module, known):
                states[name] = is_fresh(module, normal_scale=normal)
    return FreshWeights(tuple(n for n, is_new in states.items() if is_new), len(states))


def is_fresh(module: nn.Module, *, normal_scale: float | None = None) -> bool:
    """Whether a layer's weight has the distribution that its initializer draws from."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    values = weight.detach().flatten()
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        rows = torch.ones(module.num_embeddings, dtype=torch.bool, device=weight.device)
        rows[module.padding_idx] = False
        values = weight.detach()[rows].flatten()
    values = values[:: max(1, values.numel() // _MOST_ENTRIES)].double()
    if values.numel() < _ENTRIES or not bool(torch.isfinite(values).all()):
        return False
    if normal_scale is not None and _is_normal(values, normal_scale):
        return True
    if isinstance(module, nn.Embedding):
        return _is_normal(values, 1.0)
    # kaiming_uniform_(a=√5): the bound is √(6/((1 + 5) fan_in)) = 1/√fan_in
    fan_in = weight[0].numel()
    if isinstance(module, nn.modules.conv._ConvTransposeNd):
        fan_in = weight.shape[1] * math.prod(weight.shape[2:])
    return _is_uniform(values, 1 / math.sqrt(fan_in))


def _is_uniform(values: Tensor, bound: float) -> bool:
    """By its edge, its second and its fourth moment, each within four standard errors."""
    n = values.numel()
    largest = float(values.abs().max())
    # the largest of n lies below (1 − 10/n) of the bound with probability e⁻¹⁰
    if not bound * (1 - 10 / n) <= largest <= bound * (1 + 1e-3):
        return False
    square = float(values.square().mean()) / bound**2  # 1/3, with variance (1/5 − 1/9)/n
    fourth = float(values.pow(4).mean()) / bound**4  # 1/5, with variance (1/9 − 1/25)/n
    return (
        abs(square - 1 / 3) < 4 * math.sqrt(4 / 45 / n)
        and abs(fourth - 1 / 5) < 4 * math.sqrt(16 / 225 / n)
        and abs(float(values.mean())) < 4 * bound / math.sqrt(3 * n)
    )


def _is_normal(values: Tensor, scale: float) -> bool:
    n = values.numel()
    square = float(values.square().mean()) / scale**2  # 1, with variance 2/n
    fourth = float(values.pow(4).mean()) / scale**4  # 3, with variance 96/n
    return (
        abs(square - 1) < 4 * math.sqrt(2 / n)
        and abs(fourth - 3) < 4 * math.sqrt(96 / n)
        and abs(float(values.mean())) < 4 * scale / math.sqrt(n)
    )
