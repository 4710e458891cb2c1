"""Initialization schemes: in place, on a whole module, under a `torch.Generator`."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
