"""What a diagnosis measures: which blocks, and how many samples of the batch fit into memory."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from bathyscope.core.arguments import check_count, check_names, check_number
from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import LARGE_VECTOR, available_bytes, readable_size
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.nested import first_samples, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.core.probe import make_differentiable
from bathyscope.core.walks import named_parameters


def wanted_blocks(blocks: str | Iterable[str] | Blocks | None) -> Blocks | tuple[str, ...] | None:
    """The blocks that a user names, or those found before.

    Raises:
        UsageError: they are neither, or none.
    """
    if blocks is None or isinstance(blocks, Blocks):
        return blocks
    return check_names("blocks", blocks, minimum=1)


def sample_blocks(blocks: Blocks, most: int | None) -> Blocks:
    """At most this many blocks, the first and the last among them, spread evenly.

    Raises:
        UsageError: fewer than two are asked for.
    """
    if most is None or len(blocks) <= check_count("most_blocks", most, minimum=2):
        return blocks
    last = len(blocks) - 1
    chosen = sorted({round(i * last / (most - 1)) for i in range(most)})
    note = (
        f"{len(chosen)} of {len(blocks)} blocks were measured; a fault between them is seen later."
    )
    kept = tuple(replace(blocks[i], index=at) for at, i in enumerate(chosen))
    result = " ".join(part for part in (blocks.note, note) if part)
    head = [b for b in blocks.around if b.part == "head"]
    renumbered = {b.label: replace(b, index=len(kept) + i) for i, b in enumerate(head)}
    around = tuple(renumbered.get(b.label, b) for b in blocks.around)
    return Blocks(kept, blocks.how, result, around)


_GIB = 2**30
_FRACTION = 0.8
"""Of what is free, where no ceiling is given."""

_TRIED = 2
"""Samples of the pass that counts: BatchNorm in train mode needs two."""

_HELD = {"standard": 4, "full": 30}
"""Times the parameters, as measured: gradients, the optimizer's step and the weights after it; with `full`
also the copy, its optimizer, and the vectors of the curvature."""
_HELD_ON_DEVICE = 7
"""The same of `full` where large vectors of the curvature lie on the host."""

_SLACK = 2.0
"""Gradients on their way back and the matrices of the measurements, beside what the graph holds."""


def trim_batch(
    model: nn.Module, batch: Batch, *, memory: float | None, probes: str
) -> tuple[Batch, str]:
    """The batch, or its first samples where measuring all of it would take more than the ceiling.

    What the graph of a pass holds is counted on two samples and grows with their number. The weights
    and the batch are there already and are not counted. A model that takes one size of batch only is
    measured on the whole of it.

    Args:
        model: left as it was.
        batch: inputs and targets, checked.
        memory: GiB that may be taken; four fifths of what is free by default.
        probes: `standard` or `full`.

    Returns:
        The batch to measure, and a note where it is a part of the one given.

    Raises:
        UsageError: the ceiling is not positive, or two samples do not fit under it.
    """
    inputs, targets = batch
    tensors = list(tensors_in(inputs))
    if memory is not None:
        memory = check_number("memory", memory, low=0.0, high=1e9, open_low=True)
    samples = tensors[0].shape[0]
    if samples <= _TRIED:
        return batch, ""
    device = tensors[0].device
    ceiling = int(memory * _GIB) if memory is not None else int(_FRACTION * available_bytes(device))
    weights = sum(p.nbytes for p in named_parameters(unwrap(model)).values())
    is_lean = probes == "full" and device.type != "cpu" and weights > LARGE_VECTOR
    fixed = (_HELD_ON_DEVICE if is_lean else _HELD[probes]) * weights
    try:
        pair = _graph_bytes(model, first_samples(inputs, _TRIED), most=max(0, ceiling - fixed))
    except _TooMuch:
        raise UsageError(
            f"Measuring two samples of this network takes more than {readable_size(ceiling)}, the "
            "ceiling; raise the memory, or pass smaller inputs."
        ) from None
    except UsageError:  # another size of batch does not fit this model
        return batch, ""
    each = _SLACK * pair / _TRIED
    fits = max(_TRIED, int((ceiling - fixed) / max(each, 1.0)))
    if fits >= samples:
        return batch, ""
    note = (
        f"The first {fits} of {samples} samples were measured: all would take about "
        f"{readable_size(int(fixed + samples * each))}, and the ceiling is {readable_size(ceiling)}."
    )
    inputs, targets = first_samples((inputs, targets), fits)
    return (inputs, targets), note


class _TooMuch(BathyscopeError):
    """The graph of the counting pass alone is above the ceiling."""


def _graph_bytes(model: nn.Module, inputs: object, *, most: int) -> int:
    """Bytes that the graph of a forward pass holds for the backward pass, the weights left out."""
    seen = {p.untyped_storage().data_ptr() for p in named_parameters(unwrap(model)).values()}
    total = 0

    def count(tensor: Tensor) -> torch.UntypedStorage:
        nonlocal total
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
            if total > most:
                raise _TooMuch
        # The storage is held, so that no other can get its address. The tensor itself may be an
        # output of the node that saves it: held in its place, node and tensor would never be freed.
        return storage

    with (
        preserve_model(model, copy_parameters=False),
        torch.autograd.graph.saved_tensors_hooks(count, _never_unpack),
        torch.enable_grad(),
    ):
        output = run_forward(unwrap(model), make_differentiable(inputs)[0])
        del output
    return total


def _never_unpack(storage: torch.UntypedStorage) -> Tensor:
    raise AssertionError("the counting pass has no backward pass")
