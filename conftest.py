"""Shapes in signatures are checked under test only: jaxtyping's import hook with beartype."""

import os

if os.environ.get("BATHYSCOPE_TYPECHECK"):
    from jaxtyping import install_import_hook

    install_import_hook("bathyscope", "beartype.beartype")
