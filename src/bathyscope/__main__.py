"""`python -m bathyscope`, which `torchrun -m bathyscope` needs."""

import sys
from pathlib import Path

# Python puts the working folder first here; a `plotly.py` of somebody's must not stand for the library
if sys.path and sys.path[0] in ("", str(Path.cwd())):
    sys.path.append(sys.path.pop(0))

from bathyscope.cli import main

if __name__ == "__main__":
    main()
