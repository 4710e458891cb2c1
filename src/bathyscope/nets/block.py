"""The block all networks are made of: a branch, and a shortcut around it or none."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.errors import UsageError


@runtime_checkable
class Join(Protocol):
    """How branch and shortcut become one tensor, where it is not by addition."""

    def __call__(self, h: Tensor, branch: Tensor, shortcut: Tensor) -> Tensor:
        """The joined tensor, given the block's input and both paths."""
        ...

    def without_branch(self, h: Tensor, shortcut: Tensor) -> Tensor:
        """What is left of it when the branch is dropped."""
        ...


class ResidualBlock(nn.Module):
    """h = entry(x);  output = post(branch(h) + shortcut(h)).

    Plain, residual, highway and dense blocks are this one, with different parts passed in. Only
    new tensors are returned: nothing that a forward hook has seen is changed in place.

    Args:
        branch: the layers that learn.
        shortcut: the path around them; `None` for a plain block.
        entry: what both paths start from; the input itself if left out.
        join: replaces the addition.
        post: applied after the addition; nothing if left out.
        changes_dimension: whether input and output differ in shape.

    Attributes:
        changes_dimension: as given.
        norm_first: set it to `True` and `post`, a norm, stands before the branch in place of after
            the sum.
        branch_dropped: set it to `True` and the block returns post(shortcut(h)); a plain block
            that keeps its shape returns its input. A plain block that changes shape has no such
            attribute, because nothing is left of it without its branch.

    Examples:
        >>> import torch
        >>> block = ResidualBlock(nn.Linear(3, 3), shortcut=nn.Identity())
        >>> x = torch.randn(2, 3)
        >>> torch.equal(block(x), block.branch(x) + x)
        True
        >>> block.branch_dropped = True
        >>> torch.equal(block(x), x)
        True
    """

    changes_dimension: bool
    branch_dropped: bool

    def __init__(
        self,
        branch: nn.Module,
        *,
        shortcut: nn.Module | None = None,
        entry: nn.Module | None = None,
        join: nn.Module | None = None,
        post: nn.Module | None = None,
        changes_dimension: bool = False,
    ) -> None:
        super().__init__()
        self.entry = entry
        self.branch = branch
        self.shortcut = shortcut
        self.join = join
        self.post = post
        self.changes_dimension = changes_dimension
        self.norm_first = False
        if shortcut is not None or not changes_dimension:
            self.branch_dropped = False

    def forward(self, x: Float[Tensor, " n *in"]) -> Float[Tensor, " n *out"]:
        """Map the block's input to its output."""
        h = x if self.entry is None else self.entry(x)
        if self.__dict__.get("branch_dropped", False):
            y = self._without_branch(h)
        elif self.shortcut is None:
            y = self.branch(h)
        elif self.norm_first and self.post is not None:
            moved: Tensor = self.branch(self.post(h)) + self.shortcut(h)
            return moved
        elif self.join is None:
            y = self.branch(h) + self.shortcut(h)
        else:
            y = self.join(h, self.branch(h), self.shortcut(h))
        return y if self.post is None else self.post(y)

    def _without_branch(self, h: Tensor) -> Tensor:
        if self.shortcut is None:
            if self.changes_dimension:
                raise UsageError(
                    "This plain block cannot be dropped, because it changes the shape of its "
                    "input and has no shortcut; drop blocks that keep their shape."
                )
            return h
        around: Tensor = self.shortcut(h)
        if self.join is None:
            return around
        assert isinstance(self.join, Join)
        return self.join.without_branch(h, around)
