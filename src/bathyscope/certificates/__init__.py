"""Lower bounds, assumptions and guarantees of the nonlinear estimators, computed for given data."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
