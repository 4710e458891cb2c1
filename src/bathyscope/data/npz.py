"""A set in one `.npz` file: `x_train`, `y_train`, `x_test`, `y_test`."""

import io
import math
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Shaped

from bathyscope.core.errors import UsageError
from bathyscope.data.archives import MOST_BYTES
from bathyscope.data.dataset import DataSet, image_set

_KEYS = ("x_train", "y_train", "x_test", "y_test")


_MOST_HEADER = 2**17
"""Bytes at the beginning of an array that hold its header: NumPy's own limit is half of it."""


def npz(path: Path) -> DataSet:
    """The set in an `.npz` file, without running any pickle in it.

    Images are n×h×w (one channel) or n×c×h×w; bytes are divided by 255, floats are taken as they
    are. Labels are integers from 0; there are as many classes as the largest label says.

    Raises:
        UsageError: the file is missing, damaged, or does not hold these arrays.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
        >>> x, y = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 2, 0])
        >>> np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
        >>> npz(path).shape
        (1, 8, 8)
    """
    arrays = _arrays(path)
    train_inputs, test_inputs = (_images(arrays[key], key, path) for key in ("x_train", "x_test"))
    train_labels, test_labels = (_labels(arrays[key], key, path) for key in ("y_train", "y_test"))
    if train_inputs.shape[1:] != test_inputs.shape[1:] or not len(train_inputs):
        raise UsageError(
            f"{path} has training images of shape {tuple(train_inputs.shape)} and test images of "
            f"shape {tuple(test_inputs.shape)}; make them alike, with at least one to train on."
        )
    train, test = (train_inputs, train_labels), (test_inputs, test_labels)
    for part, (inputs, labels) in (("train", train), ("test", test)):
        if len(inputs) != len(labels):
            raise UsageError(
                f"{path} has {len(inputs)} images but {len(labels)} labels to {part}; "
                f"give one label for each image."
            )
    num_classes = int(torch.cat([train_labels, test_labels]).max()) + 1
    return image_set(f"npz:{path}", train, test, num_classes=num_classes)


def _arrays(path: Path) -> dict[str, Shaped[np.ndarray, " ..."]]:
    with _naming_damage(path):
        _check_sizes(path)
        with np.load(path, allow_pickle=False) as archive:
            _check_keys(path, _KEYS, archive)
            return {key: archive[key] for key in _KEYS}


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read what is wrong with it.

    Raises:
        UsageError: in place of what was raised.
    """
    try:
        yield
    except UsageError:
        raise
    # TypeError and AttributeError: a single .npy array, which np.load opens as no archive.
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        AttributeError,
        TypeError,
    ) as error:
        raise UsageError(
            f"{path} is truncated, damaged or no .npz file of numbers; save it again with "
            f"numpy.savez."
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error


def _check_keys(path: Path, keys: Sequence[str], there: Container[str]) -> None:
    missing = [key for key in keys if key not in there]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; save them with numpy.savez.")


def _check_sizes(path: Path) -> None:
    """Refuse arrays that claim more than they hold, before room is made for them.

    The header of an array states its shape; the archive states the bytes of each member. A file of a
    kilobyte may claim terabytes in both.
    """
    with zipfile.ZipFile(path) as archive:
        for key in _KEYS:
            name = f"{key}.npy"
            if name not in archive.namelist():
                continue
            size = archive.getinfo(name).file_size
            with archive.open(name) as member:
                shape, kind = _header(member.read(_MOST_HEADER))
            claimed = math.prod(shape) * kind.itemsize
            if claimed > size or size > MOST_BYTES:
                raise UsageError(
                    f"{key} in {path} claims {max(claimed, size):,} bytes; it may be at most "
                    f"{min(size, MOST_BYTES):,}: the file is damaged, or do not trust it."
                )


def array_shapes(path: Path, keys: Sequence[str]) -> list[tuple[int, ...]]:
    """The shapes that an `.npz` file states for its arrays; none is read.

    Raises:
        UsageError: the file is missing or damaged, or lacks one of them.
    """
    with _naming_damage(path), zipfile.ZipFile(path) as archive:
        _check_keys(path, [f"{key}.npy" for key in keys], archive.namelist())
        result = []
        for key in keys:
            with archive.open(f"{key}.npy") as member:
                result.append(_header(member.read(_MOST_HEADER))[0])
        return result


def _header(beginning: bytes) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    member = io.BytesIO(beginning)
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, kind = read(member)
    return tuple(shape), kind


def _images(array: Shaped[np.ndarray, " ..."], key: str, path: Path) -> torch.Tensor:
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.dtype.kind not in "uif":
        raise UsageError(
            f"{key} in {path} has shape {array.shape} and type {array.dtype}; give numbers of "
            f"shape n×h×w or n×c×h×w."
        )
    images = torch.from_numpy(array.astype(np.float32))
    return images.div_(255) if array.dtype == np.uint8 else images


def _labels(array: Shaped[np.ndarray, " ..."], key: str, path: Path) -> torch.Tensor:
    array = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1 or array.dtype.kind not in "ui" or (len(array) and array.min() < 0):
        raise UsageError(
            f"{key} in {path} has shape {array.shape} and type {array.dtype}; give n integers "
            f"from 0."
        )
    return torch.from_numpy(array.astype(np.int64))
