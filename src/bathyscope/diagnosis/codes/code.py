"""What a code of a finding is."""

from dataclasses import dataclass

from bathyscope.core.records import Cause


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding, and the part of the training in which its fault usually lies."""

    cause: Cause
    title: str
    why: str
    source: str
    remedy: str | None
    effects: tuple[str, ...] = ()
    """Codes of findings that it brings about; where they are found, it is as grave as they are."""
    downstream: tuple[str, ...] = ()
    """Codes of findings that it brings about in later blocks: it stands before those found there."""
