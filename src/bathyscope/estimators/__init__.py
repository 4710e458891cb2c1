"""scikit-learn estimators over nonlinear estimators: never worse than linear in training, certified."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
