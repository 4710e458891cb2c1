"""Measurements of any network, block by block. Each leaves the model bit for bit as it was."""

from bathyscope._lazy import lazy_names

# lazy, because a saved report is shown with `measure.quantities` and without torch
__getattr__, __dir__, __all__ = lazy_names(__name__)
