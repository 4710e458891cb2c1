"""CIFAR's python format, read without letting a pickle run code.

A pickle names functions and calls them. The official batches need three harmless ones, to rebuild a
NumPy array; every other name is refused before anything is called.
"""

import io
import pickle
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from bathyscope.core.errors import UsageError
from bathyscope.data.cifar_binary import NUM_PIXELS

# NumPy's own helper, wherever this version of NumPy keeps it.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ForbiddenName(Exception):
    """A pickle asks for something that no CIFAR batch needs."""


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _ForbiddenName(f"{module}.{name}") from None


def decode_pickle(
    content: bytes, num_classes: int, *, origin: str
) -> tuple[UInt8[np.ndarray, " n 3 32 32"], Int64[np.ndarray, " n"]]:
    """Images n×3×32×32 (uint8) and labels n (int64) of a python batch.

    Args:
        content: the bytes of the batch.
        num_classes: 10, or 100 for the fine labels of CIFAR-100.
        origin: the file's name, for errors.

    Raises:
        UsageError: the pickle asks for anything but arrays, is damaged, or holds no such batch.

    Examples:
        >>> batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [7]}
        >>> images, labels = decode_pickle(pickle.dumps(batch, 4), 10, origin="data_batch_1")
        >>> images.shape, labels.tolist()
        ((1, 3, 32, 32), [7])
    """
    batch = _unpickle(content, origin)
    key = b"fine_labels" if num_classes == 100 else b"labels"
    try:
        pixels, labels = batch[b"data"], np.asarray(batch[key], dtype=np.int64)
        fits = pixels.dtype == np.uint8 and pixels.shape == (len(labels), NUM_PIXELS)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        fits = False
    if not fits or labels.ndim != 1 or not len(labels):
        raise UsageError(
            f"{origin} is not a CIFAR-{num_classes} batch: it needs a table of n × {NUM_PIXELS} bytes "
            f"under 'data' and n labels under '{key.decode()}'; fetch it again."
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise UsageError(
            f"{origin} has labels outside 0 … {num_classes - 1}: it is damaged or no "
            f"CIFAR-{num_classes} batch; fetch it again."
        )
    return pixels.reshape(-1, 3, 32, 32), labels


def _unpickle(content: bytes, origin: str) -> Any:
    try:
        # The official files were written by Python 2, whose strings are bytes.
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except _ForbiddenName as error:
        raise UsageError(
            f"{origin} asks to call {error}, which no CIFAR batch needs: it was not run; "
            f"do not trust this file."
        ) from None
    except Exception as error:
        # A damaged pickle may raise anything at all: so says the module's own documentation.
        raise UsageError(
            f"{origin} is truncated or damaged ({type(error).__name__}); fetch it again."
        ) from error
