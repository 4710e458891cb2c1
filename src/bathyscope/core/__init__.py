"""Records, errors, the blocks of any module, and the context that puts a model back as it was."""

from bathyscope._lazy import lazy_names

# lazy, because the command line needs the errors before it needs torch
__getattr__, __dir__, __all__ = lazy_names(__name__)
