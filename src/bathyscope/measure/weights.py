"""Size and conditioning of the weights inside each block."""

import math
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bathyscope.core.arguments import check_count, check_number
from bathyscope.core.batch import Batch, check_parameters
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import calls_of, members_of, unwrap
from bathyscope.core.devices import is_packed, on_a_copy_without_double, packed_note
from bathyscope.core.fetch import fetch, small_to_host
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Block, Measurement, Number
from bathyscope.core.walks import named_modules, named_parameters
from bathyscope.linalg import (
    Conditioning,
    ConvSpectrum,
    conditioning_of_many,
    frobenius_norm,
)
from bathyscope.linalg.conditioning import rounding_tolerance
from bathyscope.linalg.conv_spectrum import circular_spectra
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.norms import frobenius_norms, spread_about
from bathyscope.measure.layers import WEIGHT_LAYERS, WeightLayer, input_sizes, layers_of
from bathyscope.measure.representations import LARGEST_SIDE
from bathyscope.measure.rows import Rows, find_blocks, fraction_non_finite

# Number of frequencies × side³ above which a convolution is sampled at fewer frequencies: about a
# tenth of a second a layer.
_LARGEST_COST = 1e9
_SMALLEST_IMAGE = 8


@on_a_copy_without_double
def weights(
    model: nn.Module,
    batch: Batch,
    *,
    blocks: Iterable[str] | Blocks | None = None,
    tolerance: float | None = None,
    largest_side: int = LARGEST_SIDE,
) -> Measurement:
    """Range, norms and condition numbers of the matrices and kernels of every block.

    Columns, one value per block, the worst of its layers:
        min, max, norm: range and Frobenius norm over all of them together.
        spectral_norm: the largest of its layers; a convolution counts as the operator it is, on
            images of the size it reads, with circular padding (norm_preservation, theorem 3).
        condition_operator: the largest effective condition number of its layers as operators.
        spread: how far its layers are from keeping the norm of the gradient: the largest rms of
            σ/√(d/min(d, c)) − 1 over the nonzero values (norm_preservation, equation 8).
        condition_outputs, condition_inputs, condition_height, …: the largest condition number
            of the unfoldings of its layers (HOSVD; singularity, section VI).
        rank_fraction: the smallest numerical rank, as a fraction of the full rank.
        worst_layer: the layer whose condition_operator is given.
        lowest_rank_layer: the layer whose rank_fraction is given.
        zero_layers: how many layers are zero throughout; they are left out of the conditions.
        non_finite: fraction of entries that are NaN or infinite.

    Args:
        model: any module; it is left as it was.
        batch: inputs, which decide the blocks and the sizes of images, and targets.
        blocks: names or globs, or blocks found before; by default they are found.
        tolerance: relative to σ_max; by default what rounding in the weight's dtype can make.
        largest_side: layers with a Gram matrix wider than this are not decomposed.

    Returns:
        The measurement `weights`.

    Raises:
        UsageError: the batch does not fit the model, or the model has no parameters.

    Examples:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2))
        >>> with torch.no_grad():
        ...     _ = model[0].weight.copy_(torch.diag(torch.tensor([6.0, 3.0])))
        >>> found = weights(model, (torch.ones(1, 2), None))
        >>> found["spectral_norm"], found["condition_outputs"], found["worst_layer"]
        ((6.0,), (2.0,), ('0',))
    """
    check_parameters(model)
    if tolerance is not None:
        check_number("tolerance", tolerance, low=0.0, high=1.0)
    check_count("largest_side", largest_side, minimum=1)
    with input_sizes(model) as sizes:
        result = find_blocks(model, batch, blocks)
        if result is blocks:  # nothing had to be found, so no pass has been seen
            calls_of(model, batch[0])
    return weight_measurement(model, result, sizes, tolerance=tolerance, largest_side=largest_side)


def weight_measurement(
    model: nn.Module,
    blocks: Blocks,
    sizes: Mapping[str, tuple[int, ...]],
    *,
    tolerance: float | None = None,
    largest_side: int = LARGEST_SIDE,
) -> Measurement:
    """The measurement `weights`, given the image size that each convolution reads."""
    rows = Rows(
        blocks,
        (
            *("min", "max", "norm", "spectral_norm", "condition_operator", "spread"),
            *("condition_outputs", "condition_inputs", "rank_fraction", "worst_layer"),
            *("lowest_rank_layer", "zero_layers", "non_finite"),
        ),
    )
    # the weight of a spectrally normalized layer in train mode moves its vectors when it is read
    guarded = (
        nullcontext() if _are_plain(model) else preserve_model(unwrap(model), copy_parameters=False)
    )
    with guarded, torch.no_grad():
        _put_layers(rows, model, blocks, sizes, tolerance=tolerance, largest_side=largest_side)
    return rows.measurement(
        "weights",
        tolerance=tolerance if tolerance is not None else "rounding",
        largest_side=largest_side,
        convolutions="operators with circular padding",
    )


def _are_plain(model: nn.Module) -> bool:
    """Whether every weight is a parameter as it stands, and none is computed when it is read."""
    layers = (m for m in named_modules(unwrap(model)).values() if isinstance(m, WEIGHT_LAYERS))
    return all(layer._parameters.get("weight") is not None for layer in layers)


def _put_layers(
    rows: Rows,
    model: nn.Module,
    blocks: Blocks,
    sizes: Mapping[str, tuple[int, ...]],
    *,
    tolerance: float | None,
    largest_side: int,
) -> None:
    members = members_of(model)
    packed = [n for n, p in named_parameters(unwrap(model)).items() if is_packed(p)]
    if packed:
        rows.note(packed_note(packed))
    by_block = [(block, layers_of(members, block)) for block in blocks]
    # a module that several blocks call is measured once
    given = {layer.name: layer for _, layers in by_block for layer in layers}
    near = small_to_host({name: layer.weight for name, layer in given.items()})
    every = {name: replace(layer, weight=near[name]) for name, layer in given.items()}
    of_weights = _sizes(list(every.values()))
    zero = {name for name in every if name not in of_weights or of_weights[name].is_zero}
    spectra = _spectra(
        every, rows, sizes, zero=zero, tolerance=tolerance, largest_side=largest_side
    )
    for block, layers in by_block:
        own = [of_weights[layer.name] for layer in layers if layer.name in of_weights]
        _put_sizes(rows, block, own)
        _put_worst(rows, block, layers, [spectra[layer.name] for layer in layers])


@dataclass(frozen=True, slots=True)
class _Size:
    """Range and norm of a weight."""

    weight: Tensor
    low: float
    high: float
    norm: float

    @property
    def is_zero(self) -> bool:
        """Whether every entry is."""
        return self.low == self.high == 0


def _sizes(layers: list[WeightLayer]) -> dict[str, _Size]:
    """By the layer's name, of weights with entries; their numbers come from an accelerator together."""
    filled = {layer.name: layer.weight for layer in layers if layer.weight.numel()}
    bounds = fetch([torch.stack(weight.aminmax()) for weight in filled.values()])
    norms = frobenius_norms(list(filled.values()))
    numbers = zip(filled.items(), bounds, norms, strict=True)
    return {name: _Size(w, low, high, norm) for (name, w), (low, high), norm in numbers}


def _put_sizes(rows: Rows, block: Block, sizes: list[_Size]) -> None:
    if not sizes:
        return
    filled = [size.weight for size in sizes]
    norms = [size.norm for size in sizes]
    entries = sum(w.numel() for w in filled)
    lost = [
        0.0 if math.isfinite(norm) else fraction_non_finite(w) * w.numel()
        for w, norm in zip(filled, norms, strict=True)
    ]
    rows.put(
        block,
        min=min(size.low for size in sizes),
        max=max(size.high for size in sizes),
        norm=math.hypot(*norms),
        zero_layers=sum(norm == 0 for norm in norms),
        non_finite=sum(lost) / entries,
    )


_NAMED = {"condition_operator": "worst_layer", "rank_fraction": "lowest_rank_layer"}
"""The columns whose worst layer is named, each in a column of its own: they may be different layers."""


def _put_worst(
    rows: Rows, block: Block, layers: list[WeightLayer], spectra: list[dict[str, Number]]
) -> None:
    """The worst value of every column over the layers of a block, and the layer that is worst."""
    for column in dict.fromkeys(column for spectrum in spectra for column in spectrum):
        result = [
            (value, layer.name)
            for layer, spectrum in zip(layers, spectra, strict=True)
            if isinstance(value := spectrum.get(column), (int, float)) and not math.isnan(value)
        ]
        if not result:
            continue
        value, name = (min if column == "rank_fraction" else max)(result)
        rows.put(block, **{column: value})
        if column in _NAMED:
            rows.put(block, **{_NAMED[column]: name})


def _spectra(
    layers: Mapping[str, WeightLayer],
    rows: Rows,
    sizes: Mapping[str, tuple[int, ...]],
    *,
    zero: set[str],
    tolerance: float | None,
    largest_side: int,
) -> dict[str, dict[str, Number]]:
    """Condition number of each unfolding of the layers, spectral norm and rank as operators."""
    result: dict[str, dict[str, Number]] = {}
    num_axes: dict[str, int] = {}  # those before the first that is too wide
    for name, layer in layers.items():
        if name in zero:
            result[name] = {"spectral_norm": 0.0}
            continue
        sides = [layer.side(axis) for axis in range(layer.weight.ndim)]
        wide = next((axis for axis, side in enumerate(sides) if side > largest_side), None)
        num_axes[name] = len(sides) if wide is None else wide
        if wide is not None:
            rows.note(
                f"Weights wider than {largest_side} were not decomposed ({name}: {sides[wide]}); "
                "raise largest_side to have them."
            )
    unfolded = _unfolded([layers[name] for name in num_axes], list(num_axes.values()), tolerance)
    narrow = [n for n, number in num_axes.items() if number == layers[n].weight.ndim]
    operators = _operators([layers[name] for name in narrow], sizes)
    for name, modes in unfolded.items():
        result[name] = {f"condition_{m}": c.condition_number for m, c in modes.items()}
        if name in operators:
            result[name] |= _as_operator(layers[name], modes, operators[name])
    return result


def _unfolded(
    layers: list[WeightLayer], num_axes: list[int], tolerance: float | None
) -> dict[str, dict[str, Conditioning]]:
    """The spectrum of every unfolding with more than one value; a matrix has one spectrum."""
    result: dict[str, dict[str, Conditioning]] = {layer.name: {} for layer in layers}
    for axis in range(max(num_axes, default=0)):
        asked = [
            layer
            for layer, number in zip(layers, num_axes, strict=True)
            if axis < number and layer.side(axis) > 1 and not (axis == 1 and layer.weight.ndim == 2)
        ]
        spectra = conditioning_of_many(
            [layer.weight for layer in asked], mode=axis, tolerances=[tolerance] * len(asked)
        )
        for layer, spectrum in zip(asked, spectra, strict=True):
            result[layer.name][layer.axes[axis]] = spectrum
    return result


def _as_operator(
    layer: WeightLayer, modes: Mapping[str, Conditioning], operator: ConvSpectrum | None
) -> dict[str, Number]:
    columns: dict[str, Number] = {}
    if layer.weight.ndim == 2 and "outputs" in modes:
        columns["condition_inputs"] = modes["outputs"].condition_number
    if operator is not None:
        columns["spectral_norm"] = operator.largest
        columns["condition_operator"] = operator.effective_condition_number
        columns["spread"] = operator.spread
        columns["rank_fraction"] = operator.rank / len(operator.values)
    elif "outputs" in modes:
        matrix = modes["outputs"]
        columns["spectral_norm"] = float(matrix.singular_values.numpy()[0])
        columns["condition_operator"] = matrix.effective_condition_number
        columns["spread"] = _spread(layer, matrix.singular_values)
        if matrix.rank is not None:
            columns["rank_fraction"] = matrix.rank / len(matrix.singular_values)
    else:  # a single row or column
        columns["spectral_norm"] = frobenius_norm(layer.weight)
    return columns


def _spread(layer: WeightLayer, values: Tensor) -> float:
    outputs = layer.weight.shape[layer.axes.index("outputs")]
    inputs = layer.weight.numel() // outputs
    few = values.numpy()  # so few numbers are compared by numpy much faster
    nonzero = few[few > rounding_tolerance(outputs, inputs, layer.weight.dtype) * few[0]]
    target = math.sqrt(outputs / min(outputs, inputs))
    return spread_about(torch.from_numpy(nonzero), target)


def _operators(
    layers: list[WeightLayer], sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, ConvSpectrum | None]:
    """The convolutions on a torus of the images they read, or of smaller ones where that is long.

    The values are those of one smooth function of the frequency: a coarser grid samples it, and so
    does that of the next size which the stride divides.
    None for matrices, and where a kernel is non-finite or does not fit its image.
    """
    result: dict[str, ConvSpectrum | None] = {layer.name: None for layer in layers}
    asked = [layer for layer in layers if layer.has_extent and layer.name in sizes]
    if not asked:
        return result
    modules = [layer.convolution for layer in asked if layer.convolution is not None]
    spectra = circular_spectra(modules, [_image_size(layer, sizes[layer.name]) for layer in asked])
    return result | dict(zip((layer.name for layer in asked), spectra, strict=True))


def _image_size(layer: WeightLayer, size: tuple[int, ...]) -> tuple[int, ...]:
    assert layer.convolution is not None
    side = min(layer.weight.shape[:2])
    while math.prod(size) * side**3 > _LARGEST_COST and max(size) > _SMALLEST_IMAGE:
        size = tuple(max(_SMALLEST_IMAGE, n // 2) for n in size)
    conv = convolution_of(layer.convolution)
    if conv.transposed:
        return size
    return tuple(n + -n % s for n, s in zip(size, conv.stride, strict=True))
