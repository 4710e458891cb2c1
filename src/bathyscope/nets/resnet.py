"""Post-activation networks of basic blocks: residual, plain, highway, Dirac.

Every builder takes n, blocks in each of the three stages; `samples`, channels of the image and classes;
`width`, channels of the first stage, which double twice; and `erased`, which leaves out the last ReLU of
each block (EraseReLU). `shortcut` says what is done where the dimension changes: "A" subsamples and pads
with zeros, "B" projects.
"""

from functools import partial
from typing import Literal

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import basic
from bathyscope.nets.dirac import DiracConv2d
from bathyscope.nets.gates import Gates
from bathyscope.nets.network import Network
from bathyscope.nets.post import no_skip, post_block, skip
from bathyscope.nets.samples import Images, network_on_images
from bathyscope.nets.shortcut import Place, ShortcutKind, stages


def resnet(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    shortcut: ShortcutKind = "A",
    erased: bool = False,
) -> Network:
    """Residual network of 6n + 2 layers: x_{l+1} = ReLU(F(x_l) + x_l)   (singularity, section VI)."""

    def block(location: Place) -> ResidualBlock:
        return post_block(basic(location), location, around=skip(shortcut), erased=erased)

    return network_on_images(samples, _locations(num_blocks, width), block)


def plain(num_blocks: int, *, samples: Images, width: int = 16, erased: bool = False) -> Network:
    """The residual network without its skips: x_{l+1} = ReLU(F(x_l))   (singularity, section VI)."""

    def block(location: Place) -> ResidualBlock:
        return post_block(basic(location), location, around=no_skip, erased=erased)

    return network_on_images(samples, _locations(num_blocks, width), block)


def highway(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    shortcut: ShortcutKind = "A",
    gates: Literal["coupled", "independent", "one"] = "coupled",
    gate_bias: float = -1.0,
    erased: bool = False,
) -> Network:
    """Highway network: x_{l+1} = ReLU(T(x_l) F(x_l) + C(x_l) x_l)   (singularity, section VII-B).

    Args:
        gates: "coupled" C = 1 - T; "independent" each with weights of its own; "one" T = C = 1,
            which is the residual network.
        gate_bias: where the transform gate starts; a negative one lets the input through.
    """

    def block(location: Place) -> ResidualBlock:
        both = None
        if gates != "one":
            both = Gates(location, coupled=gates == "coupled", bias=gate_bias)
        return post_block(
            basic(location), location, around=skip(shortcut), join=both, erased=erased
        )

    return network_on_images(samples, _locations(num_blocks, width), block)


def diracnet(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    normalized: bool = True,
    erased: bool = False,
) -> Network:
    """Plain network whose 3×3 layers have weights diag(a) I + W   (singularity, equation 39).

    Args:
        normalized: use diag(b) W / ‖W‖, filter by filter, in place of W.
    """
    conv = partial(DiracConv2d, normalized=normalized)

    def block(location: Place) -> ResidualBlock:
        return post_block(basic(location, conv=conv), location, around=no_skip, erased=erased)

    return network_on_images(samples, _locations(num_blocks, width), block)


def _locations(num_blocks: int, width: int) -> list[Place]:
    return stages(num_blocks, (width, 2 * width, 4 * width), width)
