"""Data sets in memory or on the disk: reading, fetching, and what is done to them before training."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
