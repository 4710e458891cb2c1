"""Data sets in memory or on the disk: reading, fetching, and what is done to them before training."""

from bathyscope.data.augmentation import flip_and_shift
from bathyscope.data.cache import cache_dir
from bathyscope.data.catalog import Entry, entry
from bathyscope.data.channels import channel_statistics, normalise
from bathyscope.data.dataset import DataSet
from bathyscope.data.fetching import fetch
from bathyscope.data.folder import ImageFolder, image_folders
from bathyscope.data.loading import how_to_get, is_present, load, memory_need, names, path
from bathyscope.data.need import MemoryNeed
from bathyscope.data.second_moments import moments
from bathyscope.data.sequences import (
    SEQUENCES,
    SequenceEntry,
    SequenceSet,
    sequence_entries,
    sequences,
)
from bathyscope.data.streamed_sets import token_file
from bathyscope.data.streaming import Streamed
from bathyscope.data.whitening import Whitening, whiten

__all__ = [
    "SEQUENCES",
    "DataSet",
    "Entry",
    "ImageFolder",
    "MemoryNeed",
    "SequenceEntry",
    "SequenceSet",
    "Streamed",
    "Whitening",
    "cache_dir",
    "channel_statistics",
    "entry",
    "fetch",
    "flip_and_shift",
    "how_to_get",
    "image_folders",
    "is_present",
    "load",
    "memory_need",
    "moments",
    "names",
    "normalise",
    "path",
    "sequence_entries",
    "sequences",
    "token_file",
    "whiten",
]
