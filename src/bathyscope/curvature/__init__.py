"""Hessian and Gauss-Newton matrix of any loss of any module: products, dense, spectra, by block."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
