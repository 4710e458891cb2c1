"""The 1797 handwritten digits of 8×8 pixels that come with scikit-learn: no download."""

import numpy as np
import torch

from bathyscope._lazy import _load
from bathyscope.data.channels import channel_statistics
from bathyscope.data.dataset import DataSet


def digits() -> DataSet:
    """Digits with every fifth image of each class, in scikit-learn's order, kept for the test.

    The split uses no randomness, so it is the same with every version of every library: 1442
    images to train on, 355 to test on.

    Examples:
        >>> digits().shape
        (1, 8, 8)
    """
    # a slow import that other sets need not pay for; it loads rich, whose import takes random numbers,
    # and those of the user's run stay as they are
    load_digits = _load("sklearn.datasets").load_digits

    bunch = load_digits()
    labels = np.asarray(bunch.target, dtype=np.int64)
    images = np.asarray(bunch.images, dtype=np.float32)[:, None] / 16  # 16 is the brightest pixel
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        is_test[np.flatnonzero(labels == label)[4::5]] = True
    train_inputs = torch.from_numpy(images[~is_test])
    mean, std = channel_statistics(train_inputs)
    return DataSet(
        name="digits",
        train_inputs=train_inputs,
        train_labels=torch.from_numpy(labels[~is_test]),
        test_inputs=torch.from_numpy(images[is_test]),
        test_labels=torch.from_numpy(labels[is_test]),
        num_classes=10,
        mean=mean,
        std=std,
    )
