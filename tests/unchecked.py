"""A script run in a process without the type checks: what a user sees, not what beartype says."""

import json
import os
import subprocess
import sys
import textwrap
from typing import Any


def printed_by(script: str) -> Any:
    """What the script prints as JSON."""
    environment = {k: v for k, v in os.environ.items() if k != "BATHYSCOPE_TYPECHECK"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(run.stdout)
