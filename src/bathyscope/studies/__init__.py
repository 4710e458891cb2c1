"""Figures and tables of papers as studies: run it, look at it, see what was met."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
