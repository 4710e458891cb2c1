"""Samples on a disk, one kind a class: image files, arrays in npz and idx files, tokens."""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.lib import format as npy
from torch import Tensor

from bathyscope.core.errors import UsageError
from bathyscope.data.folder import ImageFolder, pixels
from bathyscope.data.idx import ELEMENTS

Array = Shaped[np.ndarray, " ..."]


class ImageRecords:
    """Image files. Names are kept in one array of bytes: a million paths would weigh gigabytes,
    once more in every worker that counts references to them."""

    def __init__(self, images: ImageFolder) -> None:
        self.names = np.array([str(file).encode() for file in images.files])
        self.size = images.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height, width."""
        return 3, self.size, self.size

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: int) -> Tensor:
        """The picture, its shorter side brought to the size and the middle kept."""
        file = Path(self.names[index].decode())
        return torch.from_numpy(pixels(file, self.size)).float().div_(255)


@dataclass(frozen=True, slots=True)
class Mapped:
    """An array that lies in a file from an offset on; read where it is touched.

    It is mapped again for each sample: a map that stays keeps what was touched in memory.
    """

    file: Path
    offset: int
    kind: str
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, stop: int) -> Array:
        """Some of its rows, copied."""
        width = math.prod(self.shape[1:])
        item = np.dtype(self.kind)
        try:
            with self.file.open("rb") as source:
                source.seek(self.offset + start * width * item.itemsize)
                result = np.fromfile(source, dtype=item, count=(stop - start) * width)
        except OSError as error:
            raise UsageError(f"{self.file} cannot be read: {error.strerror or error}.") from error
        if len(result) != (stop - start) * width:
            raise UsageError(
                f"{self.file} is truncated: it ends before sample {stop - 1}; fetch or save it again."
            )
        return result.reshape(stop - start, *self.shape[1:]).astype(item.newbyteorder("="))


class ArrayRecords:
    """Images in an array n×h×w or n×c×h×w; bytes are divided by 255, as in memory."""

    def __init__(self, array: Mapped) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height, width."""
        sizes = self.array.shape[1:]
        return (1, *sizes) if len(sizes) == 2 else sizes

    def __len__(self) -> int:
        return len(self.array)

    def read(self, index: int) -> Tensor:
        """One image."""
        result = self.array.rows(index, index + 1)
        sample = torch.from_numpy(result.astype(np.float32)).reshape(self.shape)
        return sample.div_(255) if result.dtype == np.uint8 else sample


class TokenRecords:
    """Stretches of `context` tokens of a flat file, one after the other; `shift` tokens further on.

    The targets of a language model are its inputs with a shift of one.
    """

    def __init__(self, tokens: Mapped, context: int, *, shift: int = 0) -> None:
        self.tokens = tokens
        self.context = context
        self.shift = shift

    @property
    def shape(self) -> tuple[int, ...]:
        """The context."""
        return (self.context,)

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.context

    def read(self, index: int) -> Tensor:
        """One stretch."""
        start = index * self.context + self.shift
        return torch.from_numpy(self.tokens.rows(start, start + self.context).astype(np.int64))


def map_tokens(path: Path, kind: str) -> Mapped:
    """A flat file of tokens, little-endian numbers without a header.

    Raises:
        UsageError: the file is missing, empty, or its length is not a multiple of the number's.
    """
    item = np.dtype(kind).newbyteorder("<")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if size == 0 or size % item.itemsize:
        raise UsageError(
            f"{path} has {size} bytes, which is not a number of {kind} tokens; give the kind it was "
            "written with, or write it again."
        )
    return Mapped(path, 0, item.str, (size // item.itemsize,))


def map_idx(path: Path) -> Mapped:
    """The array of an idx file that is not gzipped.

    Raises:
        UsageError: the file is missing, gzipped, no idx file, or of another length than it says.
    """
    try:
        with path.open("rb") as source:
            head = source.read(4 + 4 * 255)
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if head[:2] == b"\x1f\x8b":
        raise UsageError(f"{path} is gzipped, which cannot be read in parts; unpack it (gunzip).")
    if (
        len(head) < 4
        or head[:2] != b"\0\0"
        or head[2] not in ELEMENTS
        or len(head) < 4 + 4 * head[3]
    ):
        raise UsageError(f"{path} is not an idx file, or ends within its header; fetch it again.")
    shape = tuple(np.frombuffer(head, dtype=">u4", count=head[3], offset=4).tolist())
    element = np.dtype(ELEMENTS[head[2]])
    offset = 4 + 4 * head[3]
    expected = offset + element.itemsize * math.prod(shape)
    if size != expected:
        fault = "is truncated" if size < expected else "has bytes after its end"
        raise UsageError(
            f"{path} {fault}: its header promises {expected} bytes, there are {size}; fetch it again."
        )
    return Mapped(path, offset, element.str, shape)


def map_npz(path: Path, keys: Sequence[str]) -> dict[str, Mapped]:
    """Arrays of an `.npz` file that was saved without compression (`numpy.savez`).

    Raises:
        UsageError: the file is missing, damaged or compressed, or lacks one of the arrays.
    """
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
            missing = [key for key in keys if f"{key}.npy" not in archive.namelist()]
            if missing:
                raise UsageError(f"{path} lacks {', '.join(missing)}; save them with numpy.savez.")
            size = path.stat().st_size
            return {key: _member(archive.getinfo(f"{key}.npy"), raw, path, size) for key in keys}
    except UsageError:
        raise
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise UsageError(
            f"{path} is truncated, damaged or no .npz file; save it again with numpy.savez."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error


def _member(member: zipfile.ZipInfo, raw: IO[bytes], path: Path, size: int) -> Mapped:
    if member.compress_type != zipfile.ZIP_STORED:
        raise UsageError(
            f"{path} is compressed, which cannot be read in parts; save it with numpy.savez."
        )
    raw.seek(member.header_offset + 26)  # the lengths of the name and of the extra field
    name, extra = np.frombuffer(raw.read(4), dtype="<u2").tolist()
    raw.seek(member.header_offset + 30 + name + extra)
    version = npy.read_magic(raw)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, kind = header(raw)
    start = raw.tell()
    if is_fortran or kind.hasobject:
        raise UsageError(f"{member.filename} in {path} is not stored row by row; save a C array.")
    if start + math.prod(shape) * kind.itemsize > size:
        raise UsageError(f"{path} is truncated within {member.filename}; save it again.")
    return Mapped(path, start, kind.str, tuple(shape))
