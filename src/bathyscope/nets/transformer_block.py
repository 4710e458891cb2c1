"""The block of a transformer: attention and feed-forward, each a residual branch with its norm."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.nets.attention import Attention
from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.embedding import Positions

NormPlace = Literal["pre", "post", "deep", "sandwich", "none"]
NormKind = Literal["layer", "rms"]
FeedForwardKind = Literal["gelu", "swiglu"]
BranchScale = Literal["none", "layerscale", "rezero"]

# LayerScale's start: 0.1 up to 18 blocks, 1e-5 for deeper ones (Touvron et al. 2021, section 2)
_SHALLOW, _SHALLOW_START, _DEEP_START = 18, 0.1, 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What papers differ in, and a user of any transformer sets by name: `norm="post", width=256`.

    Attributes:
        width: of the tokens' vectors.
        heads: of the attention.
        norm: before each branch, after each sum, after each sum of a scaled stream (DeepNorm), on
            both sides of each branch, or nowhere.
        norm_kind: LayerNorm or RMSNorm.
        feed_forward: GELU with four times the width, or SwiGLU with as many parameters.
        positions: learned, rotary (they enter the attention as angles), or none.
        qk_norm: whether queries and keys are normalized.
        branch_scale: a learned factor for each feature of a branch (LayerScale) or for all of them,
            from zero (ReZero).
        skip: whether there are skips around attention and feed-forward.
    """

    width: int = 64
    heads: int = 4
    norm: NormPlace = "pre"
    norm_kind: NormKind = "layer"
    feed_forward: FeedForwardKind = "gelu"
    positions: Positions = "learned"
    qk_norm: bool = False
    branch_scale: BranchScale = "none"
    skip: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Design(Options):
    """All that the blocks of a transformer are made of.

    Attributes:
        num_blocks: attention and feed-forward, this many times.
        causal: whether a token sees only those before it.
        epsilon: of the norms.
        tanh_gelu: GELU by its tanh formula, as GPT-2 has it.
    """

    num_blocks: int
    causal: bool = False
    epsilon: float
    tanh_gelu: bool = False

    def new_norm(self, width: int | None = None) -> nn.Module:
        """A norm over the width of the tokens, or over another."""
        kind = nn.LayerNorm if self.norm_kind == "layer" else nn.RMSNorm
        return kind(width or self.width, eps=self.epsilon)


class TransformerBlock(nn.Module):
    """x ↦ mlp(attention(x)), both residual blocks with an identity, or scaled, shortcut.

    Attributes:
        attention: a `ResidualBlock` whose branch mixes tokens.
        mlp: a `ResidualBlock` whose branch treats every token alone.

    Examples:
        >>> from bathyscope import nets
        >>> block = nets.build("gpt-2", seed=0).blocks[0]
        >>> block.branch_dropped = True
        >>> x = torch.randn(2, 5, 64)
        >>> torch.equal(block(x), x)
        True
    """

    changes_dimension = False

    def __init__(self, design: Design) -> None:
        super().__init__()
        head_width = design.width // design.heads
        attention = Attention(
            design.width,
            heads=design.heads,
            causal=design.causal,
            rotary=design.positions == "rotary",
            query_norm=design.new_norm(head_width) if design.qk_norm else None,
            key_norm=design.new_norm(head_width) if design.qk_norm else None,
        )
        self.attention = _around(attention, design)
        self.mlp = _around(_feed_forward(design), design)

    @property
    def branch_dropped(self) -> bool:
        """Whether both branches are switched off."""
        return self.attention.branch_dropped and self.mlp.branch_dropped

    @branch_dropped.setter
    def branch_dropped(self, dropped: bool) -> None:
        self.attention.branch_dropped = self.mlp.branch_dropped = dropped

    def forward(self, x: Float[Tensor, " n t d"]) -> Float[Tensor, " n t d"]:
        """The tokens after attention and feed-forward."""
        result: Tensor = self.mlp(self.attention(x))
        return result


class Scale(nn.Module):
    """A learned factor, one for each feature or one for all."""

    def __init__(self, size: int, start: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((size,), start))

    def forward(self, x: Float[Tensor, " *n d"]) -> Float[Tensor, " *n d"]:
        """The tensor times the factor."""
        return self.factor * x


class ScaledShortcut(nn.Module):
    """α x, the stream of DeepNorm (Wang et al. 2022): x_{l+1} = norm(α x_l + branch(x_l))."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Float[Tensor, " *n d"]) -> Float[Tensor, " *n d"]:
        """The stream times α."""
        return self.factor * x


class SwiGlu(nn.Module):
    """W₃(silu(W₁x) · W₂x), with a hidden width that makes it as large as a GELU layer of 4d."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = round(8 * width / 3)
        self.gate = nn.Linear(width, hidden)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, " *n d"]) -> Float[Tensor, " *n d"]:
        """Each token by itself."""
        result: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return result


def _around(branch: nn.Module, design: Design) -> ResidualBlock:
    """The branch with its norm, scale and shortcut in the places that the design names."""
    layers = [branch]
    if design.norm in ("pre", "sandwich"):
        layers.insert(0, design.new_norm())
    if design.norm == "sandwich":
        layers.append(design.new_norm())
    if design.branch_scale == "layerscale":
        start = _SHALLOW_START if design.num_blocks <= _SHALLOW else _DEEP_START
        layers.append(Scale(design.width, start))
    elif design.branch_scale == "rezero":
        layers.append(Scale(1, 0.0))
    return ResidualBlock(
        nn.Sequential(*layers),
        shortcut=_shortcut(design) if design.skip else None,
        post=design.new_norm() if design.norm in ("post", "deep") else None,
    )


def _shortcut(design: Design) -> nn.Module:
    if design.norm == "deep":
        return ScaledShortcut(math.pow(2 * design.num_blocks, 0.25))
    return nn.Identity()


def _feed_forward(design: Design) -> nn.Module:
    if design.feed_forward == "swiglu":
        return SwiGlu(design.width)
    return nn.Sequential(
        nn.Linear(design.width, 4 * design.width),
        nn.GELU(approximate="tanh" if design.tanh_gelu else "none"),
        nn.Linear(4 * design.width, design.width),
    )
