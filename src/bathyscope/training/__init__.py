"""Training: one loop that is cheap, exact to resume, and takes a divergence for a result."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
