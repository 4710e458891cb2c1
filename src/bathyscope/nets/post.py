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
    place: Place,
    *,
    around: Around,
    join: nn.Module | None = None,
    erased: bool = False,
) -> ResidualBlock:
    """ReLU(branch(x) + shortcut(x)), the branch made of convolutions and batch normalisation.

    Args:
        convs: the convolutions of the branch.
        place: where the block stands.
        around: gives the shortcut of a place.
        join: replaces the addition.
        erased: leave out the ReLU (EraseReLU).
    """
    return ResidualBlock(
        post_activation(convs),
        shortcut=around(place),
        join=join,
        post=None if erased else nn.ReLU(),
        changes_dimension=place.changes_dimension,
    )


def skip(kind: ShortcutKind) -> Around:
    """Identity where the shape stays, else option A or B (with batch normalisation)."""
    return partial(_skip, kind=kind)


def no_skip(place: Place) -> None:
    """No shortcut at all: the block is plain."""


def _skip(place: Place, *, kind: ShortcutKind) -> nn.Module:
    if not place.changes_dimension:
        return nn.Identity()
    return Subsample(place) if kind == "A" else projection_then_norm(place)
