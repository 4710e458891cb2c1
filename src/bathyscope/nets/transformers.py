"""Transformers: GPT on text, BERT on text seen from both sides, ViT on images.

Their builders take more options than seven, because each option is one that papers differ in and
that a user sets by name: `build("gpt-24", norm="post", width=256)`.
"""

from torch import nn

from bathyscope.nets.embedding import (
    ClassToken,
    PatchEmbedding,
    Positions,
    TiedLinear,
    TokenEmbedding,
)
from bathyscope.nets.network import Network
from bathyscope.nets.transformer_block import (
    BranchScale,
    Design,
    FeedForwardKind,
    NormKind,
    NormPlace,
    TransformerBlock,
)


def gpt(
    num_blocks: int,
    *,
    vocabulary: int = 256,
    context: int = 128,
    width: int = 64,
    heads: int = 4,
    norm: NormPlace = "pre",
    norm_kind: NormKind = "layer",
    feed_forward: FeedForwardKind = "gelu",
    positions: Positions = "learned",
    qk_norm: bool = False,
    branch_scale: BranchScale = "none",
    tied: bool = True,
    skip: bool = True,
) -> Network:
    """Predicts the next token from those before it; with its defaults the design of GPT-2.

    Args:
        num_blocks: attention and feed-forward, this many times.
        vocabulary: how many tokens there are; as many logits at every position.
        context: the most tokens of a sequence.
        width: of the tokens' vectors.
        heads: of the attention.
        norm: where the norms stand: `pre`, `post`, `deep` (DeepNorm), `sandwich`, `none`.
        norm_kind: LayerNorm or RMSNorm.
        feed_forward: GELU or SwiGLU.
        positions: learned, rotary, or none.
        qk_norm: normalize queries and keys.
        branch_scale: LayerScale or ReZero on every branch.
        tied: whether the logits are made by the table of the embedding.
        skip: whether there are skips around attention and feed-forward.
    """
    design = Design(
        num_blocks=num_blocks,
        width=width,
        heads=heads,
        causal=True,
        norm=norm,
        norm_kind=norm_kind,
        epsilon=1e-5,
        feed_forward=feed_forward,
        tanh_gelu=True,
        rotary=positions == "rotary",
        qk_norm=qk_norm,
        branch_scale=branch_scale,
        skip=skip,
    )
    stem = TokenEmbedding(vocabulary, context, width, positions=positions)
    logits = TiedLinear(stem.token) if tied else nn.Linear(width, vocabulary, bias=False)
    return _network(design, stem=stem, head=[*_last_norm(design), logits])


def bert(
    num_blocks: int,
    *,
    vocabulary: int = 256,
    context: int = 128,
    width: int = 64,
    heads: int = 4,
    norm: NormPlace = "post",
    norm_kind: NormKind = "layer",
    feed_forward: FeedForwardKind = "gelu",
    positions: Positions = "learned",
    qk_norm: bool = False,
    branch_scale: BranchScale = "none",
    tied: bool = True,
    skip: bool = True,
) -> Network:
    """Predicts tokens from those on both sides; with its defaults the design of BERT.

    BERT's second table, for the segment that a token belongs to, is left out: sequences have one segment.

    Args:
        num_blocks: attention and feed-forward, this many times.
        vocabulary: how many tokens there are; as many logits at every position.
        context: the most tokens of a sequence.
        width: of the tokens' vectors.
        heads: of the attention.
        norm: where the norms stand: `pre`, `post`, `deep` (DeepNorm), `sandwich`, `none`.
        norm_kind: LayerNorm or RMSNorm.
        feed_forward: GELU or SwiGLU.
        positions: learned, rotary, or none.
        qk_norm: normalize queries and keys.
        branch_scale: LayerScale or ReZero on every branch.
        tied: whether the logits are made by the table of the embedding.
        skip: whether there are skips around attention and feed-forward.
    """
    design = Design(
        num_blocks=num_blocks,
        width=width,
        heads=heads,
        causal=False,
        norm=norm,
        norm_kind=norm_kind,
        epsilon=1e-12,
        feed_forward=feed_forward,
        tanh_gelu=False,
        rotary=positions == "rotary",
        qk_norm=qk_norm,
        branch_scale=branch_scale,
        skip=skip,
    )
    first = None if norm == "none" else design.new_norm()
    stem = TokenEmbedding(vocabulary, context, width, positions=positions, norm=first)
    logits = TiedLinear(stem.token, bias=True) if tied else nn.Linear(width, vocabulary)
    last = [] if norm == "none" else [design.new_norm()]
    head = [*_last_norm(design), nn.Linear(width, width), nn.GELU(), *last, logits]
    return _network(design, stem=stem, head=head)


def vit(
    num_blocks: int,
    *,
    in_channels: int = 3,
    num_classes: int = 10,
    image_size: int = 32,
    patch: int = 4,
    width: int = 64,
    heads: int = 4,
    norm: NormPlace = "pre",
    norm_kind: NormKind = "layer",
    feed_forward: FeedForwardKind = "gelu",
    positions: Positions = "learned",
    qk_norm: bool = False,
    branch_scale: BranchScale = "none",
    skip: bool = True,
) -> Network:
    """Classifies images, cut into patches; with its defaults the design of ViT.

    Args:
        num_blocks: attention and feed-forward, this many times.
        in_channels: of the images.
        num_classes: one logit each.
        image_size: side of the images.
        patch: side of the patches.
        width: of the tokens' vectors.
        heads: of the attention.
        norm: where the norms stand: `pre`, `post`, `deep` (DeepNorm), `sandwich`, `none`.
        norm_kind: LayerNorm or RMSNorm.
        feed_forward: GELU or SwiGLU.
        positions: learned, rotary, or none.
        qk_norm: normalize queries and keys.
        branch_scale: LayerScale or ReZero on every branch.
        skip: whether there are skips around attention and feed-forward.
    """
    design = Design(
        num_blocks=num_blocks,
        width=width,
        heads=heads,
        causal=False,
        norm=norm,
        norm_kind=norm_kind,
        epsilon=1e-6,
        feed_forward=feed_forward,
        tanh_gelu=False,
        rotary=positions == "rotary",
        qk_norm=qk_norm,
        branch_scale=branch_scale,
        skip=skip,
    )
    stem = PatchEmbedding(in_channels, image_size, patch, width, positions=positions)
    head = [*_last_norm(design), ClassToken(), nn.Linear(width, num_classes)]
    return _network(design, stem=stem, head=head)


def _network(design: Design, *, stem: nn.Module, head: list[nn.Module]) -> Network:
    blocks = [TransformerBlock(design) for _ in range(design.num_blocks)]
    return Network(blocks, stem=stem, head=nn.Sequential(*head))


def _last_norm(design: Design) -> list[nn.Module]:
    """The norm after the last block, where the stream itself was never normalized."""
    return [design.new_norm()] if design.norm in ("pre", "sandwich") else []
