"""The post-activation block: convolutions, addition, ReLU; with or without its skip."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import post_activation
from bathyscope.nets.shortcut import Place, ShortcutKind, Subsample, projection_then_norm

Around = Callable[[Place], nn.Module | None]


def post_block(
    convs: Sequence[nn.Conv2d],
    location: Place,
    *,
    around: Around,
    join: nn.Module | None = None,
    erased: bool = False,
) -> ResidualBlock:
    """ReLU(branch(x) + shortcut(x)), the branch made of convolutions and batch normalization.

    Args:
        convs: the convolutions of the branch.
        location: where the block stands.
        around: gives the shortcut of a place.
        join: replaces the addition.
        erased: leave out the ReLU (EraseReLU).
    """
    return ResidualBlock(
        post_activation(convs),
        shortcut=around(location),
        join=join,
        post=None if erased else nn.ReLU(),
        changes_dimension=location.changes_dimension,
    )


def skip(kind: ShortcutKind) -> Around:
    """Identity where the shape stays, else option A or B (with batch normalization)."""
    return partial(_skip, kind=kind)


def no_skip(location: Place) -> None:
    """No shortcut at all: the block is plain."""


def _skip(location: Place, *, kind: ShortcutKind) -> nn.Module:
    if not location.changes_dimension:
        return nn.Identity()
    return Subsample(location) if kind == "A" else projection_then_norm(location)
