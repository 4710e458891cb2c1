"""Linear algebra: conditioning and ranks, HOSVD, spectra of convolutions, Lanczos."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
