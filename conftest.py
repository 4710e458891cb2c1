"""Shapes in signatures are checked under test only: jaxtyping's import hook with beartype."""

import os

# Some virtual machines announce AMX and stop at its first instruction (bfloat16 matrix products).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

if os.environ.get("BATHYSCOPE_TYPECHECK"):
    import sys
    from types import ModuleType

    from beartype import BeartypeConf, beartype
    from jaxtyping import install_import_hook

    # the hook wants a name: beartype, for which a whole number is a float, as it is for mypy
    checks = ModuleType("typechecks_under_test")
    checks.check = beartype(conf=BeartypeConf(is_pep484_tower=True))
    sys.modules[checks.__name__] = checks
    install_import_hook("bathyscope", f"{checks.__name__}.check")
