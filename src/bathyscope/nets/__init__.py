"""The networks of the four papers, by name and at any depth: `build`, `names`, `families`."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
