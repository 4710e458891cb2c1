"""Sets that stay on the disk: image folders, npz and idx files, token files."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.arguments import check_count
from bathyscope.core.errors import UsageError
from bathyscope.data.channels import channel_statistics
from bathyscope.data.dataset import DataSet
from bathyscope.data.folder import draw_images, image_folders
from bathyscope.data.records import (
    ArrayRecords,
    ImageRecords,
    Mapped,
    TokenRecords,
    map_idx,
    map_npz,
    map_tokens,
)
from bathyscope.data.sequences import CONTEXT, SequenceSet
from bathyscope.data.streaming import Records, Streamed

_STATISTICS_BYTES = 256 << 20
"""Mean and deviation of the channels are those of the first training images of a draw that take so
much; where all take less, of all, as in memory."""

_IDX_PARTS = (("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
              ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"))  # fmt: skip
TOKEN_KINDS = ("uint16", "uint32", "int32", "int64")


def stream_folder(
    root: Path,
    *,
    size: int,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
) -> DataSet:
    """The images below a folder, read when they are asked for.

    Layouts, arguments and draws are those of `folder`.
    """
    train, test = image_folders(root, size=size)
    generator = torch.Generator().manual_seed(seed)
    kept = [
        torch.tensor(draw_images(part, wanted, generator))
        for part, wanted in ((train, num_train), (test, num_test))
    ]
    return _dataset(
        f"folder:{root}",
        (ImageRecords(train), torch.tensor(train.labels)),
        (ImageRecords(test), torch.tensor(test.labels)),
        num_classes=len(train.class_names),
        seed=seed,
        kept=kept,
    )


def stream_npz(path: Path, *, seed: int = 0) -> DataSet:
    """The set in an `.npz` file (`x_train`, `y_train`, `x_test`, `y_test`), images left in the file.

    Raises:
        UsageError: the file is missing, damaged or compressed, or does not hold these arrays.
    """
    arrays = map_npz(path, ("x_train", "y_train", "x_test", "y_test"))
    return _of_arrays(f"npz:{path}", path, *arrays.values(), seed=seed)


def stream_idx(folder: Path, *, seed: int = 0) -> DataSet:
    """A set in four idx files with the names of MNIST's, not gzipped, images left in the files.

    Raises:
        UsageError: a file is missing, damaged or gzipped.
    """
    parts = [map_idx(folder / name) for pair in _IDX_PARTS for name in pair]
    return _of_arrays(f"idx:{folder}", folder, *parts, seed=seed)


def token_file(
    path: Path | str,
    *,
    context: int = CONTEXT,
    kind: str = "uint16",
    vocabulary: int,
    test_fraction: float = 0.1,
) -> SequenceSet:
    """A flat file of tokens as sequences, the next token to be predicted; nothing is read yet.

    Args:
        path: tokens one after the other, little-endian, without a header.
        context: tokens of a sequence; sequences do not overlap.
        kind: of each number: uint16, uint32, int32 or int64.
        vocabulary: how many different tokens there are.
        test_fraction: of the file, at its end, that is kept for the test.

    Raises:
        UsageError: the file is missing, too short, or its length fits no number of tokens.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tokens.bin"
        >>> np.arange(1000, dtype=np.uint16).tofile(path)
        >>> found = token_file(path, context=8, vocabulary=1000)
        >>> found.train_inputs[1].tolist(), found.train_targets[1].tolist()[-1]
        ([8, 9, 10, 11, 12, 13, 14, 15], 16)
    """
    if kind not in TOKEN_KINDS:
        raise UsageError(f"Tokens are of kind {', '.join(TOKEN_KINDS)}, but {kind!r} was given.")
    check_count("context", context, minimum=1)
    check_count("vocabulary", vocabulary, minimum=1)
    tokens = map_tokens(Path(path).expanduser(), kind)
    inputs, targets = (TokenRecords(tokens, context, shift=shift) for shift in (0, 1))
    split = len(inputs) - max(1, int(test_fraction * len(inputs)))
    if split < 1:
        raise UsageError(
            f"{path} holds {len(tokens)} tokens, too few for sequences of {context} to train and "
            "to test on; give a shorter context."
        )
    parts = [torch.arange(split), torch.arange(split, len(inputs))]
    train, train_targets, test, test_targets = (
        Streamed(records, rows, dtype=torch.int64)
        for rows in parts
        for records in (inputs, targets)
    )
    name = f"tokens:{path}"
    return SequenceSet(name, train, train_targets, test, test_targets, vocabulary, _stamp(tokens))


def _stamp(tokens: Mapped) -> str:
    """Name, length and time of a file: to read it whole for a checksum may take an hour."""
    state = tokens.file.stat()
    return f"{tokens.file.name} {state.st_size} {state.st_mtime_ns}"


def _of_arrays(
    name: str, path: Path, x: Mapped, y: Mapped, x_test: Mapped, y_test: Mapped, *, seed: int
) -> DataSet:
    for images, labels in ((x, y), (x_test, y_test)):
        if len(images.shape) not in (3, 4) or labels.shape != images.shape[:1] or not len(images):
            raise UsageError(
                f"{path} has images of shape {images.shape} and labels of shape {labels.shape}; "
                "give n×h×w or n×c×h×w numbers and one label for each."
            )
    classes = [torch.from_numpy(part.rows(0, len(part)).astype(np.int64)) for part in (y, y_test)]
    return _dataset(
        name,
        (ArrayRecords(x), classes[0]),
        (ArrayRecords(x_test), classes[1]),
        num_classes=int(torch.cat(classes).max()) + 1,
        seed=seed,
    )


def _dataset(
    name: str,
    train: tuple[Records, Tensor],
    test: tuple[Records, Tensor],
    *,
    num_classes: int,
    seed: int,
    kept: list[Tensor] | None = None,
) -> DataSet:
    rows = [torch.arange(len(records)) for records, _ in (train, test)] if kept is None else kept
    inputs, test_inputs = Streamed(train[0], rows[0]), Streamed(test[0], rows[1])
    mean, std = channel_statistics(inputs[_statistics_rows(inputs, seed)])
    return DataSet(
        name=name,
        train_inputs=inputs,
        train_labels=train[1][rows[0]],
        test_inputs=test_inputs,
        test_labels=test[1][rows[1]],
        num_classes=num_classes,
        mean=mean,
        std=std,
    )


def _statistics_rows(inputs: Streamed, seed: int) -> Tensor | slice:
    most = max(1, _STATISTICS_BYTES // (4 * torch.Size(inputs.records.shape).numel()))
    if len(inputs) <= most:
        return slice(None)
    return torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))[:most]
