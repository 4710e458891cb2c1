"""The statements of papers as checks with verdicts: `check`, `ledger`."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
