"""What goes into a network and what comes out of it: the options that all families on such samples share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.network import Network
from bathyscope.nets.shortcut import Place
from bathyscope.nets.stem import activated_stem, pooled_head

End = Callable[[int, int], nn.Module]
"""A stem or a head, from the numbers of channels, features or classes on its two sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images and their classes.

    Attributes:
        num_classes: outputs of the classifier.
        in_channels: channels of the image.
    """

    num_classes: int = 10
    in_channels: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Vectors, of the network's own width unless another one is given.

    Attributes:
        in_features: put a linear layer from this many inputs in front; an image is flattened.
        num_classes: put a linear layer to this many outputs at the end.
    """

    in_features: int | None = None
    num_classes: int | None = None


def network_on_images(
    samples: Images,
    locations: Sequence[Place],
    block: Callable[[Place], ResidualBlock],
    *,
    stem: End = activated_stem,
    head: End = pooled_head,
) -> Network:
    """A block at every place, between a stem from the image and a head to the classes."""
    return Network(
        [block(location) for location in locations],
        stem=stem(samples.in_channels, locations[0].in_channels),
        head=head(locations[-1].out_channels, samples.num_classes),
    )


def network_on_vectors(samples: Vectors, blocks: Sequence[nn.Module], width: int) -> Network:
    """The blocks, with linear layers without bias before and after where their sizes are given."""
    stem = head = None
    if samples.in_features is not None:
        stem = nn.Sequential(nn.Flatten(), nn.Linear(samples.in_features, width, bias=False))
    if samples.num_classes is not None:
        head = nn.Linear(width, samples.num_classes, bias=False)
    return Network(blocks, stem=stem, head=head)
