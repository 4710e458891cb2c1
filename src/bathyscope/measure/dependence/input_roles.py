"""What each input of a model is (tokens, values, a padding mask, document ids, lengths, labels), and what of
it is never read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from bathyscope.core.fetch import to_host
from bathyscope.core.nested import tensors_in

if TYPE_CHECKING:
    from bathyscope.measure.dependence.eval_pass import EvalPass, InputInGraph

Role = Literal["tokens", "values", "mask", "documents", "positions", "lengths", "labels", "other"]
InputKind = Literal["tokens", "sequence", "image", "table"]

_LABELS = ("labels", "label", "targets", "target", "start_positions", "end_positions")
_DOCUMENTS = ("segment_ids", "document_ids", "doc_ids", "sequence_ids", "seq_ids", "documents")
_POSITIONS = ("position_ids", "positions", "pos_ids")
_LENGTHS = ("lengths", "length", "lens", "seq_lens", "input_lengths")
# In torch.nn a padding mask is true where there is padding; in transformers it is 1 where there is none.
_TRUE_IS_PADDING = ("padding_mask", "key_padding_mask", "src_key_padding_mask", "pad_mask")
_TRUE_IS_REAL = ("attention_mask", "mask", "input_mask", "valid_mask")
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, slots=True, eq=False)
class NamedInput:
    """One tensor among the inputs: its name, its place in the order of `tensors_in`, what it is."""

    name: str
    number: int
    tensor: Tensor
    role: Role


def named_inputs(inputs: object) -> tuple[NamedInput, ...]:
    """Every tensor of the inputs with its role, by its name where it has one, else by what it holds.

    Examples:
        >>> batch = {"input_ids": torch.ones(2, 5).long(), "attention_mask": torch.ones(2, 5)}
        >>> [(one.name, one.role) for one in named_inputs(batch)]
        [('input_ids', 'tokens'), ('attention_mask', 'mask')]
    """
    named = list(_names(inputs, ""))
    first = next((t for _, t in named if t.ndim), None)
    return tuple(
        NamedInput(name, number, tensor, _role(name, tensor, first))
        for number, (name, tensor) in enumerate(named)
    )


def are_vectors(inputs: tuple[NamedInput, ...]) -> bool:
    """Whether they are vectors (samples, columns) alone: without positions, tokens or padding.

    Examples:
        >>> are_vectors(named_inputs(torch.zeros(8, 3))), are_vectors(named_inputs(torch.zeros(8, 5, 3)))
        (True, False)
    """
    return all(one.role == "values" and one.tensor.ndim <= 2 for one in inputs)


def _names(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name or "input", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _names(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from _names(item, f"{name}.{number}" if name else f"input {number}")
    else:
        yield from ((name, tensor) for tensor in tensors_in(value))


def _role(name: str, tensor: Tensor, first: Tensor | None) -> Role:
    key = name.rpartition(".")[2].lower()
    for names, role in (
        (_LABELS, "labels"),
        (_DOCUMENTS, "documents"),
        (_POSITIONS, "positions"),
        (_LENGTHS, "lengths"),
        ((*_TRUE_IS_PADDING, *_TRUE_IS_REAL), "mask"),
    ):
        if key in names:
            return role  # type: ignore[return-value]
    if tensor is first:
        return "values" if tensor.is_floating_point() else "tokens"
    if (
        first is not None
        and tensor.ndim == 2
        and tensor.shape == first.shape[:2]
        and _binary(tensor)
    ):
        return "mask"
    if tensor.is_floating_point():
        return "values" if tensor.ndim >= 2 else "other"
    if first is not None and tensor.ndim == 1 and first.ndim > 1 and len(tensor) == len(first):
        fits = tensor.numel() > 0 and int(tensor.min()) > 0 and int(tensor.max()) <= first.shape[1]
        return "lengths" if fits and tensor.dtype != torch.bool else "other"
    return "tokens" if tensor.ndim == 2 and tensor.dtype in (torch.int64, torch.int32) else "other"


def _binary(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool or bool(((tensor == 0) | (tensor == 1)).all())


def relates_samples(model: nn.Module, inputs: object) -> str | None:
    """The name of an input or buffer that relates the samples to each other, as a graph's edges do.

    That is a square matrix of the samples' number beside the values, or a list of pairs (2, edges).

    Examples:
        >>> relates_samples(nn.Linear(3, 2), (torch.randn(7, 3), torch.ones(7, 7)))
        'input 1'
    """
    known = named_inputs(inputs)
    if not known or not known[0].tensor.is_floating_point() or known[0].tensor.ndim != 2:
        return None
    nodes = len(known[0].tensor)
    for one in known[1:]:
        if tuple(one.tensor.shape) == (nodes, nodes) or _are_edges(one.tensor, nodes):
            return one.name
    held = [*model.named_buffers(), *_plain_tensors(model)]
    for name, tensor in held:
        if tuple(tensor.shape) == (nodes, nodes) or _are_edges(tensor, nodes):
            return name
    return None


def _are_edges(tensor: Tensor, nodes: int) -> bool:
    whole = tensor.dtype == torch.int64 and tensor.layout is torch.strided
    if not whole or tensor.ndim != 2 or tensor.shape[0] != 2 or nodes == 2 or not tensor.numel():
        return False
    return int(tensor.min()) >= 0 and int(tensor.max()) < nodes


def _plain_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{prefix}.{name}".lstrip("."), value


def kind_of_values(model: nn.Module, tensor: Tensor) -> tuple[InputKind, tuple[int, ...]]:
    """What a floating input is, and the axes of its positions, the samples being on axis 0.

    (samples, columns), (samples, positions, features), (samples, channels, height, width); three axes
    are channels first where a Conv1d takes the second axis for its channels.

    Examples:
        >>> kind_of_values(nn.Conv1d(2, 4, 3), torch.zeros(5, 2, 9))
        ('sequence', (2,))
    """
    if tensor.ndim <= 2:
        return "table", tuple(range(1, tensor.ndim))
    if tensor.ndim == 3:
        channels = {m.in_channels for m in model.modules() if isinstance(m, nn.Conv1d)}
        first = tensor.shape[1] in channels and tensor.shape[2] not in channels
        return "sequence", (2,) if first else (1,)
    if tensor.shape[-1] in _CHANNELS and tensor.shape[1] not in _CHANNELS:
        return "image", tuple(range(1, tensor.ndim - 1))
    return "image", tuple(range(2, tensor.ndim))


def runs_at_ends(is_pad: Tensor) -> Tensor:
    """Of the positions that may be padding those in a run at either end of their sequence."""
    right = is_pad.flip(1).long().cumprod(1).flip(1).bool()
    left = is_pad.long().cumprod(1).bool()
    whole = is_pad.all(1, keepdim=True)
    return (right | left) & ~whole


PADDING_INSIDE = 0.25
"""Of the places of a padding token, the fraction inside of sequences from which on it is a word."""


def padding_in_text(tokens: Tensor, padding_idx: int) -> float:
    """Of the places of the padding token the fraction that is not at either end of a sequence.

    A sequence of nothing else is padding as a whole, as that which fills a batch, and is left out.

    Examples:
        >>> padding_in_text(torch.tensor([[5, 0, 3, 0], [0, 4, 0, 7]]), 0)
        0.5
    """
    is_pad = tokens == padding_idx
    is_pad = is_pad & ~is_pad.all(1, keepdim=True)
    inside = is_pad & ~runs_at_ends(is_pad)
    return float(inside.sum()) / max(1, int(is_pad.sum()))


UNREAD = 1e-7
"""Of the largest gradient of an entry: below it the output does not change with the entry, to rounding."""
_FADING = 1e-3
"""Of the largest: a gradient so small beside the first unread position has faded, and is not cut off."""


@dataclass(frozen=True, slots=True)
class UnreadInput:
    """The positions of an input without a gradient, over all samples that were asked.

    Attributes:
        name: of the input.
        kind: tokens, sequence, image or table.
        fraction: of the positions (tokens, pixels, columns) that are not padding.
        unread: the first of them.
        positions: how many there are.
        fades: whether the gradient falls off gradually towards them, as through time in recurrent layers.
        samples: that were asked.
    """

    name: str
    kind: InputKind
    fraction: float
    unread: tuple[int, ...]
    positions: int
    fades: bool
    samples: int


def unread_of_pass(
    ran: "EvalPass",
    gradients: list[Tensor | None],
    *,
    asked: Tensor,
    padding: Tensor | None = None,
) -> tuple[UnreadInput, ...]:
    """What the gradients from all outputs of the asked samples leave out, for every input.

    Args:
        ran: the pass.
        gradients: of the sources.
        asked: (samples,), true for those whose outputs were asked.
        padding: (samples, positions) of the first input, true where there is padding.
    """
    results = []
    strengths = [s.strengths(g) for s, g in zip(ran.sources, gradients, strict=True)]
    read = [gradient.any() for gradient in gradients if gradient is not None]
    near = to_host([*strengths, *read])
    is_read = any(map(bool, near[len(strengths) :]))
    for source, of_samples in zip(ran.sources, near, strict=False):
        strength = of_samples[asked]
        real = torch.ones_like(strength, dtype=torch.bool)
        if source is ran.main and padding is not None and padding.shape[1] == strength.shape[1]:
            real = ~padding[asked]
        results.append(_unread(source, strength, real, is_read=is_read))
    return tuple(results)


def _unread(
    source: "InputInGraph", strength: Tensor, real: Tensor, *, is_read: bool
) -> UnreadInput:
    counts = real.any(0)
    largest = float(strength.max()) if strength.numel() else 0.0
    by_position = torch.where(real, strength, torch.zeros((), device="cpu")).amax(0)
    silent = (by_position <= UNREAD * largest) & counts
    if not is_read:  # a last layer of zeros hides what is read
        silent = torch.zeros_like(silent)
    locations = silent.nonzero().flatten()
    return UnreadInput(
        name=source.name,
        kind=source.kind,
        fraction=len(locations) / max(1, int(counts.sum())),
        unread=tuple(int(p) for p in locations[:8]),
        positions=strength.shape[1],
        fades=_fades(strength.amax(0), largest),
        samples=len(strength),
    )


def _fades(strength: Tensor, largest: float) -> bool:
    """Whether the read position beside a run of unread ones at an end is itself hardly read."""
    reading = (strength > UNREAD * largest).nonzero().flatten()
    if not len(reading) or len(reading) == len(strength):
        return False
    first, last = int(reading.min()), int(reading.max())
    if last - first + 1 != len(reading):  # unread ones between
        return False
    ends = ((first, first > 0), (last, last < len(strength) - 1))
    edges = [float(strength[location]) for location, is_open in ends if is_open]
    return all(edge < _FADING * largest for edge in edges)
