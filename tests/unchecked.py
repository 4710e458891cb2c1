"""Calls with wrong types on purpose: what a user is told, not what beartype says under test."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxtyping import config


@contextmanager
def unchecked() -> Iterator[None]:
    """Signatures are not checked inside; also a decorator, `@unchecked()`, of a whole test."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


def printed_by(script: str) -> Any:
    """What the script prints as JSON in a process of its own without the checks."""
    environment = {k: v for k, v in os.environ.items() if k != "BATHYSCOPE_TYPECHECK"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(run.stdout)
