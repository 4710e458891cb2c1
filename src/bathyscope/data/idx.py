"""The idx format of MNIST and Fashion-MNIST, plain or gzipped.

Four bytes of magic (0, 0, element type, number of dimensions), the dimensions as big-endian 32-bit
integers, then the elements, big-endian, the last dimension fastest.
"""

import gzip
import io
import math
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from bathyscope.core.errors import UsageError
from bathyscope.data.archives import MOST_BYTES, copy_limited

ELEMENTS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"


def read_idx(path: Path) -> Shaped[np.ndarray, " ..."]:
    """The array in an idx file; gzip is recognized by its magic, not by the file's name.

    Raises:
        UsageError: the file is missing, is not an idx file, or is shorter or longer than it says.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
        >>> read_idx(path).tolist()
        [7, 2, 1]
    """
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in ELEMENTS:
        raise UsageError(
            f"{path} is not an idx file: it begins with {content[:4].hex(' ') or 'nothing'}, "
            f"where an idx file begins with 00 00 and an element type; fetch it again."
        )
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise UsageError(f"{path} is truncated: it ends within its header; fetch it again.")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4).tolist()
    element = np.dtype(ELEMENTS[content[2]])
    expected = header + element.itemsize * math.prod(shape)
    if len(content) != expected:
        fault = "is truncated" if len(content) < expected else "has bytes after its end"
        raise UsageError(
            f"{path} {fault}: its header promises {expected} bytes, there are {len(content)}; "
            f"fetch it again."
        )
    array = np.frombuffer(content, dtype=element, offset=header).reshape(shape)
    return array.astype(element.newbyteorder("="))


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        if content[:2] != _GZIP_MAGIC:
            return content
        unpacked = io.BytesIO()
        with gzip.open(path) as source:
            copy_limited(source, unpacked, MOST_BYTES, path)
        return unpacked.getvalue()
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise UsageError(f"{path} is a damaged gzip file: {error}; fetch it again.") from error
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (EOFError, zlib.error) as error:
        raise UsageError(f"{path} is a truncated or damaged gzip file; fetch it again.") from error
