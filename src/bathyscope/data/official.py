"""Sets in their official files: found below a folder in any of their formats, and read."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8

from bathyscope.core.errors import UsageError
from bathyscope.data.archives import is_archive, read_members
from bathyscope.data.catalog import entry
from bathyscope.data.cifar_binary import decode_records
from bathyscope.data.cifar_pickle import decode_pickle
from bathyscope.data.dataset import DataSet, image_set
from bathyscope.data.idx import read_idx

Batch = tuple[UInt8[np.ndarray, " _ c h w"], Int64[np.ndarray, " _"]]
Decode = Callable[..., Batch]

# Where other tools keep the same files below a data folder.
_IDX_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST", "."),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "."),
}
_CIFAR_FOLDERS = {
    "cifar-10": ("cifar-10", "cifar-10-batches-bin", "cifar-10-batches-py", "."),
    "cifar-100": ("cifar-100", "cifar-100-binary", "cifar-100-python", "."),
}
_CIFAR_ARCHIVES = {
    "cifar-10": ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
    "cifar-100": ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
}
_CIFAR_PARTS = {
    "cifar-10": (tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
    "cifar-100": (("train",), "test"),
}


def idx_set(name: str, root: Path) -> DataSet:
    """MNIST or Fashion-MNIST from four idx files, plain or gzipped.

    Raises:
        UsageError: a file is missing or damaged, or images and labels do not fit each other.
    """
    parts = []
    for prefix in ("train", "t10k"):
        images = read_idx(_idx_file(name, f"{prefix}-images-idx3-ubyte", root))
        path = _idx_file(name, f"{prefix}-labels-idx1-ubyte", root)
        labels = read_idx(path)
        if images.ndim != 3 or labels.shape != images.shape[:1] or images.dtype != np.uint8:
            raise UsageError(
                f"{path} has labels of shape {labels.shape} for images of shape {images.shape}; "
                f"fetch {name} again."
            )
        parts.append((images[:, None], labels.astype(np.int64)))
    return _dataset(name, *parts)


def cifar_set(name: str, root: Path) -> DataSet:
    """CIFAR-10 or CIFAR-100 from binary files, python pickles, or either's official archive.

    Raises:
        UsageError: a file is missing or damaged, or a pickle asks to run code.
    """
    contents, decode = _cifar_contents(name, root)
    num_classes = entry(name).num_classes
    batches = [decode(contents[part](), num_classes, origin=part) for part in contents]
    train = tuple(np.concatenate(arrays) for arrays in zip(*batches[:-1], strict=True))
    return _dataset(name, (train[0], train[1]), batches[-1])


def _idx_file(name: str, file: str, root: Path) -> Path:
    for folder in _IDX_FOLDERS[name]:
        for candidate in (root / folder / file, root / folder / f"{file}.gz"):
            if candidate.is_file():
                return candidate
    raise _missing_error(name, root, f"{file}, plain or gzipped,")


def _cifar_contents(name: str, root: Path) -> tuple[dict[str, Callable[[], bytes]], Decode]:
    """How to read each part, by the name it has in errors, the test part last."""
    train, test = _CIFAR_PARTS[name]
    for suffix, decode in ((".bin", decode_records), ("", decode_pickle)):
        files = [f"{part}{suffix}" for part in (*train, test)]
        for folder in _CIFAR_FOLDERS[name]:
            paths = [root / folder / file for file in files]
            if all(path.is_file() for path in paths):
                return {str(path): path.read_bytes for path in paths}, decode
        for archive in (
            root / location / file for location in (".", name) for file in _CIFAR_ARCHIVES[name]
        ):
            if is_archive(archive):
                members = read_members(archive, files)
                if len(members) == len(files):
                    return {
                        f"{file} in {archive}": _constant(members[file]) for file in files
                    }, decode
    raise _missing_error(name, root, "the binary or python batches")


def _constant(content: bytes) -> Callable[[], bytes]:
    return lambda: content


def _missing_error(name: str, root: Path, what: str) -> UsageError:
    return UsageError(
        f"{name} is not in {root}: {what} cannot be found; run `bathyscope data fetch {name}` or "
        f"name the folder of your own copy with --data-dir."
    )


def _dataset(name: str, train: Batch, test: Batch) -> DataSet:
    num_classes = entry(name).num_classes
    largest = max(int(labels.max(initial=0)) for _, labels in (train, test))
    if largest >= num_classes:
        raise UsageError(f"{name} has a label {largest}, beyond {num_classes - 1}; fetch it again.")
    first, second = (
        (torch.from_numpy(images.astype(np.float32)).div_(255), torch.from_numpy(labels))
        for images, labels in (train, test)
    )
    return image_set(name, first, second, num_classes=num_classes)
