"""What needs no pass of the model: fresh weights, norms that cannot follow or normalize, channel order."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from bathyscope.core.calls import unwrap
from bathyscope.core.fetch import near
from bathyscope.core.walks import named_modules

_ENTRIES = 256
"""Entries that are needed to show a distribution: the standard error of a standard deviation is then 4 %."""
_MOST_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class FreshWeights:
    """Layers whose weights have exactly the distribution that their class starts with.

    Attributes:
        frozen: names of layers that are frozen and fresh.
        frozen_layers: how many layers with enough weights to be judged are frozen.
        head: the last layer, where it is fresh and the layers before it have been trained.
        is_vocabulary: whether that head has an output for each row of an embedding.
    """

    frozen: tuple[str, ...]
    frozen_layers: int
    head: str | None = None
    is_vocabulary: bool = False


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
    for name, module in named_modules(model).items():
        weight = module._parameters.get(
            "weight"
        )  # to read one that is computed changes spectral norms
        if weight is None or weight.requires_grad:
            continue
        if weight.numel() >= _ENTRIES and weight.ndim >= 2:
            known = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding)
            if isinstance(module, known):
                states[name] = is_fresh(module, normal_scale=normal)
    head, is_vocabulary = _fresh_head(model, normal)
    fresh = tuple(n for n, is_new in states.items() if is_new)
    return FreshWeights(fresh, len(states), head, is_vocabulary)


_TRAINED_LAYERS = 3


def _fresh_head(model: nn.Module, normal: float | None) -> tuple[str | None, bool]:
    """The last linear layer if it is fresh behind layers that look like no draw, and if it is a vocabulary's.

    The first layers are looked at: where they look drawn, the whole network is fresh.
    """
    layers = [
        (name, module)
        for name, module in named_modules(model).items()
        if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd))
        and (weight := module._parameters.get("weight")) is not None
        and weight.numel() >= _ENTRIES
    ]
    linear = [pair for pair in layers if isinstance(pair[1], nn.Linear)]
    if len(layers) <= _TRAINED_LAYERS or not linear:
        return None, False
    name, head = linear[-1]
    tables = [
        m
        for m in named_modules(model).values()
        if isinstance(m, nn.Embedding) and "weight" in m._parameters
    ]
    if any(table.weight is head.weight for table in tables) or not is_fresh(
        head, normal_scale=normal
    ):
        return None, False
    others = [pair for pair in layers if pair[1] is not head]
    before = others[:: max(1, len(others) // _TRAINED_LAYERS)][:_TRAINED_LAYERS]
    if any(looks_drawn(module.weight.detach()) for _, module in before):
        return None, False
    return name, any(table.num_embeddings == head.weight.shape[0] for table in tables)


def looks_drawn(weight: Tensor) -> bool:
    """Whether the entries may be uniform or normal draws of whatever size, by their kurtosis.

    It is 1.8 for uniform and 3 for normal entries, with standard errors √(96/n) for normal and less for
    uniform ones; training adds heavy tails.

    Examples:
        >>> looks_drawn(3 * torch.randn(64, 64)), looks_drawn(torch.randn(64, 64) ** 3)
        (True, False)
    """
    values = near(weight.detach()).flatten()
    values = values[:: max(1, values.numel() // _MOST_ENTRIES)].cpu().double()
    size = float(values.square().mean())
    if not size or not bool(torch.isfinite(values).all()):
        return True
    kurtosis = float(values.pow(4).mean()) / size**2
    apart = 4 * math.sqrt(96 / values.numel())
    return abs(kurtosis - 3) < apart or abs(kurtosis - 1.8) < apart


def is_fresh(module: nn.Module, *, normal_scale: float | None = None) -> bool:
    """Whether a layer's weight has the distribution that its initializer draws from."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    weight = near(weight.detach())
    values = weight.flatten()
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        rows = torch.ones(module.num_embeddings, dtype=torch.bool, device=weight.device)
        rows[module.padding_idx] = False
        values = weight[rows].flatten()
    values = values[:: max(1, values.numel() // _MOST_ENTRIES)].cpu().double()
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


_BATCH_NORM = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True, slots=True)
class NormStatistics:
    """What a model's batch norms make of their statistics.

    Attributes:
        still: norms in train mode with momentum 0: their running statistics never move.
        still_at_start: of these, those whose statistics are still (0, 1).
        last_batch: norms with momentum of 0.9 or more: they hold little but the last batch.
        channel_range: largest over smallest root mean square along the axis that a norm takes for channels.
        other_range: the same along the axis that it averages over; for the input (samples, channels, length)
            of a norm where this is largest beside the first. None where no norm has three axes.
    """

    still: tuple[str, ...]
    still_at_start: tuple[str, ...]
    last_batch: tuple[str, ...]
    channel_range: float | None = None
    other_range: float | None = None


LARGEST_MOMENTUM = 0.9
"""In torch momentum is the weight of the new batch, 0.1 by default; in TensorFlow it is that of the past."""


def norm_statistics(model: nn.Module, *, inputs: Iterable[Tensor] = ()) -> NormStatistics:
    """The momenta of a model's batch norms, and the scales along the axes of inputs that they were given.

    Args:
        model: any module.
        inputs: of batch norms with three axes (samples, channels, length).

    Examples:
        >>> norm_statistics(nn.Sequential(nn.BatchNorm1d(3, momentum=0.99))).last_batch
        ('0',)
    """
    norms = {
        name: module
        for name, module in named_modules(unwrap(model)).items()
        if isinstance(module, _BATCH_NORM) and module.running_mean is not None
    }
    trained = {n: m for n, m in norms.items() if m.training}
    still = [n for n, m in trained.items() if m.momentum == 0]
    ranges = [result for x in inputs if (result := scale_ranges(x)) is not None]
    worst = max(ranges, key=lambda pair: pair[1] / pair[0], default=None)
    return NormStatistics(
        still=tuple(still),
        still_at_start=tuple(n for n in still if _at_start(norms[n])),
        last_batch=tuple(
            n
            for n, m in trained.items()
            if m.momentum is not None and m.momentum >= LARGEST_MOMENTUM
        ),
        channel_range=worst[0] if worst else None,
        other_range=worst[1] if worst else None,
    )


def _at_start(norm: nn.Module) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    assert isinstance(mean, Tensor)
    assert isinstance(variance, Tensor)
    return not bool(mean.any()) and bool((variance == 1).all())


def scale_ranges(x: Tensor) -> tuple[float, float] | None:
    """Largest over smallest root mean square along the second axis, and along the third.

    Examples:
        >>> x = torch.ones(4, 6, 2) * torch.tensor([1.0, 50.0])
        >>> scale_ranges(x)
        (1.0, 50.0)
    """
    if x.ndim != 3 or min(x.shape[1:]) < 2:
        return None
    square = x.detach().double().square()
    ranges = []
    for over in ((0, 2), (0, 1)):
        size = square.mean(over).sqrt()
        size = size[size > 0]
        if len(size) < 2 or not bool(torch.isfinite(size).all()):
            return None
        ranges.append(float(size.max() / size.min()))
    return ranges[0], ranges[1]


_MOST_WEIGHTS = 1 << 22


def unnormalized_spectral_norms(model: nn.Module) -> dict[str, float]:
    """Largest singular value of every weight after its `spectral_norm`: 1 where the iteration has run.

    The estimate of σ is made better by a step of power iteration in every pass in train mode, and by none in
    eval mode: a model in eval mode from the beginning divides by uᵀWv with u, v as they were drawn.

    Examples:
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        >>> list(unnormalized_spectral_norms(nn.Sequential(layer)))
        ['0.weight']
    """
    result = {}
    for prefix, module in named_modules(unwrap(model)).items():
        for name, matrix, u, v in _normed(module):
            if matrix.numel() > _MOST_WEIGHTS or not bool(torch.isfinite(matrix).all()):
                continue
            estimate = abs(float(u.double() @ matrix.double() @ v.double()))
            largest = float(torch.linalg.matrix_norm(matrix.double(), 2))
            key = f"{prefix}.{name}".lstrip(".")
            result[key] = largest / estimate if estimate else float("inf")
    return result


def _normed(module: nn.Module) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Name, matrix and the two vectors of each weight under a spectral norm, of the new and the old kind."""
    for name, steps in getattr(module, "parametrizations", {}).items():
        for step in steps:
            if isinstance(step, parametrizations._SpectralNorm) and hasattr(step, "_u"):
                matrix = step._reshape_weight_to_matrix(steps.original.detach())
                yield name, matrix, step._u, step._v
    for hook in getattr(module, "_forward_pre_hooks", {}).values():
        if type(hook).__name__ == "SpectralNorm":
            original = getattr(module, f"{hook.name}_orig").detach()
            vectors = (getattr(module, f"{hook.name}_{end}") for end in "uv")
            yield hook.name, hook.reshape_weight_to_matrix(original), *vectors


_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class ChannelOrder:
    """How unlike pixels are, by the distance between them along a row.

    Attributes:
        channels: C, how many the images have.
        step: mean absolute difference of pixels one apart.
        period: the same for pixels C apart: larger in a picture, smaller where rows are interleaved channels.
        column_step: the same for pixels one apart along a column.
        restored: mean of both where rows are taken for (height, width, C) that was reshaped, and put right.
    """

    channels: int
    step: float
    period: float
    column_step: float
    restored: float

    @property
    def interleaved(self) -> bool:
        """Whether pixels are clearly more alike C apart along a row, or in the picture that is put right."""
        is_put_right = self.restored < INTERLEAVED * (self.step + self.column_step) / 2
        return is_put_right or self.period < INTERLEAVED * self.step


INTERLEAVED = 0.75
"""In pictures differences grow with the distance (ratio above 1); in noise the ratio is 1 ± 0.02."""


def channel_order(images: Tensor) -> ChannelOrder | None:
    """Differences along rows at distance 1 and at distance C, of images (samples, C, height, width).

    Where (height, width, C) was reshaped to (C, height, width) in place of a permutation, a row holds the
    channels of one pixel beside each other, and pixels C apart are neighbors.

    Returns:
        None where there are no images with several channels that differ.

    Examples:
        >>> ramp = torch.linspace(0, 1, 16)[None, :, None] * torch.tensor([1.0, 0.2, 0.6])  # height, width, C
        >>> picture = (ramp + torch.tensor([0.0, 2.0, -1.0])).expand(4, 16, 16, 3)
        >>> channel_order(picture.permute(0, 3, 1, 2)).interleaved
        False
        >>> channel_order(picture.reshape(4, 3, 16, 16)).interleaved
        True
    """
    if images.ndim != 4 or not images.is_floating_point() or images.shape[1] not in (2, 3, 4):
        return None
    channels, width = images.shape[1], images.shape[3]
    images = near(images)
    if width < 8 or images.shape[2] < 4 or not bool(torch.isfinite(images).all()):
        return None
    x = images[:_SAMPLES].detach().cpu().double()
    step = float((x[..., 1:] - x[..., :-1]).abs().mean())
    period = float((x[..., channels:] - x[..., :-channels]).abs().mean())
    column = float((x[..., 1:, :] - x[..., :-1, :]).abs().mean())
    put = x.reshape(len(x), *x.shape[2:], channels)
    across, along = put[:, :, 1:] - put[:, :, :-1], put[:, 1:] - put[:, :-1]
    restored = float(across.abs().mean() + along.abs().mean()) / 2
    return ChannelOrder(channels, step, period, column, restored) if step > 0 else None
