"""The run store: one folder per run, written so that nothing finished is ever lost."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
