"""Data sets in memory: reading, fetching, and what is done to them before training."""

from bathyscope.data.augmentation import flip_and_shift
from bathyscope.data.channels import channel_statistics, normalise
from bathyscope.data.dataset import DataSet
from bathyscope.data.loading import load, names
from bathyscope.data.second_moments import moments
from bathyscope.data.whitening import Whitening, whiten

__all__ = [
    "DataSet",
    "Whitening",
    "channel_statistics",
    "flip_and_shift",
    "load",
    "moments",
    "names",
    "normalise",
    "whiten",
]
