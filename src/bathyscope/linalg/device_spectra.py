"""Spectra of large tensors of a device: Gram matrices are made there, and read together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bathyscope.core.fetch import to_host
from bathyscope.linalg.conditioning import (
    SMALL_SIDE,
    Asked,
    Conditioning,
    decided_by_gram,
    without_values,
)
from bathyscope.linalg.norms import fits_in_squares, gram_matrix

_AT_ONCE = 2**21
"""Bytes of Gram matrices that wait to be read: they lie beside the model."""


def first_spectra(asked: Sequence[Asked]) -> list[Conditioning | None]:
    """Of large tensors of a device, from one Gram matrix each; None where that does not decide.

    Ranges and Gram matrices come together, a few megabytes at a time; eigenvalues of the wider ones are
    computed there.
    """
    result: list[Conditioning | None] = []
    waiting: list[tuple[Asked, Tensor, Tensor]] = []
    ranges: dict[int, Tensor] = {}

    def read() -> None:
        fetched = to_host([tensor for _, *both in waiting for tensor in both])
        for (one, *_), span, matrix in zip(waiting, fetched[::2], fetched[1::2], strict=True):
            result.append(_read_spectrum(one, span.tolist(), matrix))
        waiting.clear()

    for one in asked:
        tensor, (dtype, *_) = one.tensor.detach(), one.dtypes
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.float()
        gram = gram_matrix(tensor, one.mode, dtype=dtype).double()
        matrix = gram if len(gram) <= SMALL_SIDE else torch.linalg.eigvalsh(gram)
        if id(one.tensor) not in ranges:
            ranges[id(one.tensor)] = torch.stack(tensor.aminmax())
        waiting.append((one, ranges[id(one.tensor)], matrix))
        if sum(m.nbytes for _, _, m in waiting) > _AT_ONCE:
            read()
    read()
    return result


def _read_spectrum(one: Asked, span: Sequence[float], matrix: Tensor) -> Conditioning | None:
    """From the range of a tensor, and its Gram matrix or the eigenvalues of that."""
    largest = max(-span[0], span[1])
    if largest == 0 or not math.isfinite(largest):
        return without_values(one.tensor, one.mode, largest, one.cut)
    if not fits_in_squares(largest, one.tensor.dtype):
        return None
    squares = torch.linalg.eigvalsh(matrix) if matrix.ndim == 2 else matrix
    accuracy = one.accuracy
    if accuracy is None:
        accuracy = 1e-8 if one.tensor.dtype == torch.float64 else 1e-2
    return decided_by_gram(
        squares.numpy()[::-1],
        dtype=one.dtypes[0],
        own=one.tensor.dtype,
        unit=1.0,
        tolerance=one.cut,
        accuracy=accuracy,
    )
