"""The 1797 handwritten digits of 8×8 pixels that come with scikit-learn: no download."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from bathyscope._lazy import _load
from bathyscope.data.dataset import DataSet, image_set


def digits() -> DataSet:
    """Digits with every fifth image of each class, in scikit-learn's order, kept for the test.

    The split uses no randomness, so it is the same with every version of every library: 1442
    images to train on, 355 to test on.

    Examples:
        >>> digits().shape
        (1, 8, 8)
    """
    rows = _rows()
    labels = rows[:, -1].astype(np.int64)
    images = rows[:, :-1].astype(np.float32).reshape(-1, 1, 8, 8) / 16  # 16 is the brightest pixel
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        is_test[np.flatnonzero(labels == label)[4::5]] = True
    train, test = (
        (torch.from_numpy(images[part]), torch.from_numpy(labels[part]))
        for part in (~is_test, is_test)
    )
    return image_set("digits", train, test, num_classes=10)


def _rows() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """One row per image: 64 pixels and the label."""
    # scikit-learn's own file: its import takes longer than a diagnosis, and loads what takes random
    # numbers from Python's generator
    package = find_spec("sklearn")
    for folder in (package.submodule_search_locations or ()) if package else ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            text = gzip.decompress(file.read_bytes()).decode().replace("\n", ",").rstrip(",")
            return np.fromiter(map(int, text.split(",")), dtype=np.uint8).reshape(-1, 65)
    bunch = _load("sklearn.datasets").load_digits()
    return np.column_stack([bunch.data, bunch.target]).astype(np.uint8)
