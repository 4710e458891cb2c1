"""Reports from records alone: terminal, JSON, HTML and pictures. Nothing here measures."""

from bathyscope._lazy import lazy_names

# lazy: a diagnosis holds a report, and most are never drawn
__getattr__, __dir__, __all__ = lazy_names(__name__)
