"""Reversible changes to a model or an optimizer, as data: remedies, and recipes of several."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
