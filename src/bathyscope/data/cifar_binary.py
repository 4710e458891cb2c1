"""CIFAR's binary format: records of one label byte (CIFAR-10) or two (CIFAR-100) and 3072 pixels."""

import numpy as np
from jaxtyping import Int64, UInt8

from bathyscope.core.errors import UsageError

NUM_PIXELS = 3 * 32 * 32


def decode_records(
    content: bytes, num_classes: int, *, origin: str
) -> tuple[UInt8[np.ndarray, " n 3 32 32"], Int64[np.ndarray, " n"]]:
    """Images n×3×32×32 (uint8) and labels n (int64) of a binary batch.

    Args:
        content: the bytes of the batch.
        num_classes: 10, or 100 where a record holds a coarse and then a fine label; the fine one
            is returned.
        origin: the file's name, for errors.

    Raises:
        UsageError: not a whole number of records, or a label out of range.

    Examples:
        >>> images, labels = decode_records(bytes([7]) + bytes(3072), 10, origin="batch.bin")
        >>> images.shape, labels.tolist()
        ((1, 3, 32, 32), [7])
    """
    num_labels = 2 if num_classes == 100 else 1
    record = num_labels + NUM_PIXELS
    if not content or len(content) % record:
        raise UsageError(
            f"{origin} is truncated or no CIFAR-{num_classes} file: {len(content)} bytes are not a "
            f"whole number of records of {record} bytes; fetch it again."
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    labels = records[:, num_labels - 1].astype(np.int64)
    if labels.max() >= num_classes:
        raise UsageError(
            f"{origin} is damaged or no CIFAR-{num_classes} file: it has a label {labels.max()}, "
            f"beyond {num_classes - 1}; fetch it again."
        )
    return records[:, num_labels:].reshape(-1, 3, 32, 32), labels
