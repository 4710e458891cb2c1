"""Thirty-three more silent bugs of common kinds, written and committed before any of them was diagnosed.

`PROGRAMS` is that of `unseen`, of its own; its entries are in the files beside.
"""

from tests.loops import unseen
from tests.loops.tasks import Train

PROGRAMS: dict[str, tuple[Train, tuple[str, ...]]] = {}


def program(*codes: str):
    """Add a program whose cause is named by one of these codes."""
    return unseen.program(*codes, programs=PROGRAMS)
