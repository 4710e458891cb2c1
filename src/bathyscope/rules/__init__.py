"""What can be wrong: one object per rule, found in `families/`, read by all commands."""

from bathyscope._lazy import lazy_names

# lazy, because a rule's file imports this package before the registry can have read it
__getattr__, __dir__, __all__ = lazy_names(__name__)
