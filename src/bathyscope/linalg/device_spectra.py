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

_AT_ONCE, _WIDE_AT_ONCE = 2**22, 2**24
"""Bytes of Gram matrices that wait to be read, and of those whose eigenvalues are computed there together:
they lie beside the model."""


def first_spectra(asked: Sequence[Asked]) -> list[Conditioning | None]:
    """Of large tensors of a device, from one Gram matrix each; None where that does not decide.

    Ranges and Gram matrices come together, a few megabytes at a time; eigenvalues of the wider ones are
    computed there, those of one size in one call: the host waits for each call.
    """
    result: list[Conditioning | None] = [None] * len(asked)
    waiting: dict[int, list[tuple[int, Tensor, Tensor]]] = {}  # by their side; 0 for the others
    ranges: dict[int, Tensor] = {}

    def read() -> None:
        given = waiting.pop(0, [])
        fetched = to_host([tensor for _, span, matrix in given for tensor in (span, matrix)])
        for i, (place, _, _) in enumerate(given):
            span, matrix = fetched[2 * i : 2 * i + 2]
            result[place] = _read_spectrum(asked[place], span.tolist(), matrix)

    def decompose(side: int) -> None:
        places, spans, grams = zip(*waiting.pop(side), strict=True)
        values = torch.linalg.eigvalsh(_finite(grams))
        waiting.setdefault(0, []).extend(zip(places, spans, values, strict=True))

    for place, one in enumerate(asked):
        tensor, (dtype, *_) = one.tensor.detach(), one.dtypes
        if tensor.dtype not in (torch.float32, torch.float64):
            tensor = tensor.float()
        gram = gram_matrix(tensor, one.mode, dtype=dtype).double()
        if id(one.tensor) not in ranges:
            ranges[id(one.tensor)] = torch.stack(tensor.aminmax())
        side = len(gram) if len(gram) > SMALL_SIDE else 0
        alike = waiting.setdefault(side, [])
        alike.append((place, ranges[id(one.tensor)], gram))
        limit = _WIDE_AT_ONCE if side else _AT_ONCE
        if sum(g.nbytes for *_, g in alike) + gram.nbytes > limit:
            decompose(side) if side else read()
    for side in [side for side in waiting if side]:
        decompose(side)
    read()
    return result


def _finite(matrices: Sequence[Tensor]) -> Tensor:
    """A stack of matrices without NaN and Inf, for which LAPACK raises.

    The eigenvalues of one that had any mean nothing, which the range of its tensor will show.
    """
    return torch.stack(list(matrices)).nan_to_num_(0.0, 0.0, 0.0)


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
