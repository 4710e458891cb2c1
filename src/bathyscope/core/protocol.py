"""What a network can show about itself, by structure and not by class."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class DeclaresBlocks(Protocol):
    """A network that names its own blocks, in the order of the forward pass.

    The names are qualified as in `named_modules()`. Each block maps one tensor to the next.
    """

    def block_names(self) -> Sequence[str]:
        """Qualified names of the blocks, first to last."""
        ...


@runtime_checkable
class Droppable(Protocol):
    """A block whose residual branch can be switched off: its output is then its shortcut alone."""

    branch_dropped: bool


@runtime_checkable
class ChangesDimension(Protocol):
    """A block that says whether its output differs in shape from its input."""

    changes_dimension: bool
