"""Will this network train? Steps on a copy, what they show, and a forecast that knows its limits."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
