"""Shapes in signatures are checked under test only: jaxtyping's import hook with beartype."""

import os

# Some virtual machines announce AMX and stop at its first instruction (bfloat16 matrix products).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

if os.environ.get("BATHYSCOPE_TYPECHECK"):
    from jaxtyping import install_import_hook

    install_import_hook("bathyscope", "beartype.beartype")
