"""Transformers: GPT on text, BERT on text seen from both sides, ViT on images."""

from dataclasses import asdict

from torch import nn

from bathyscope.nets.embedding import ClassToken, PatchEmbedding, TiedLinear, TokenEmbedding
from bathyscope.nets.network import Network
from bathyscope.nets.transformer_block import Design, Options, TransformerBlock


def gpt(
    num_blocks: int,
    *,
    vocabulary: int = 256,
    context: int = 128,
    options: Options,
    tied: bool = True,
) -> Network:
    """Predicts the next token from those before it; with its defaults the design of GPT-2.

    Args:
        num_blocks: attention and feed-forward, this many times.
        vocabulary: how many tokens there are; as many logits at every position.
        context: the most tokens of a sequence.
        options: of the blocks.
        tied: whether the logits are made by the table of the embedding.
    """
    design = Design(
        **asdict(options), num_blocks=num_blocks, causal=True, epsilon=1e-5, tanh_gelu=True
    )
    width = options.width
    stem = TokenEmbedding(vocabulary, context, width, positions=options.positions)
    logits = TiedLinear(stem.token) if tied else nn.Linear(width, vocabulary, bias=False)
    return _network(design, stem=stem, head=[*_last_norm(design), logits])


def bert(
    num_blocks: int,
    *,
    vocabulary: int = 256,
    context: int = 128,
    options: Options,
    tied: bool = True,
) -> Network:
    """Predicts tokens from those on both sides; with its defaults the design of BERT.

    BERT's second table, for the segment that a token belongs to, is left out: sequences have one
    segment. Arguments are those of `gpt`.
    """
    design = Design(**asdict(options), num_blocks=num_blocks, epsilon=1e-12)
    first = None if options.norm == "none" else design.new_norm()
    last = [] if options.norm == "none" else [design.new_norm()]
    width = options.width
    stem = TokenEmbedding(vocabulary, context, width, positions=options.positions, norm=first)
    logits = TiedLinear(stem.token, bias=True) if tied else nn.Linear(width, vocabulary)
    head = [*_last_norm(design), nn.Linear(width, width), nn.GELU(), *last, logits]
    return _network(design, stem=stem, head=head)


def vit(
    num_blocks: int,
    *,
    in_channels: int = 3,
    num_classes: int = 10,
    image_size: int = 32,
    patch: int = 4,
    options: Options,
) -> Network:
    """Classifies images, cut into patches; with its defaults the design of ViT.

    Args:
        num_blocks: attention and feed-forward, this many times.
        in_channels: of the images.
        num_classes: one logit each.
        image_size: side of the images.
        patch: side of the patches.
        options: of the blocks.
    """
    design = Design(**asdict(options), num_blocks=num_blocks, epsilon=1e-6)
    width = options.width
    stem = PatchEmbedding(in_channels, image_size, patch, width, positions=options.positions)
    head = [*_last_norm(design), ClassToken(), nn.Linear(width, num_classes)]
    return _network(design, stem=stem, head=head)


def _network(design: Design, *, stem: nn.Module, head: list[nn.Module]) -> Network:
    blocks = [TransformerBlock(design) for _ in range(design.num_blocks)]
    return Network(blocks, stem=stem, head=nn.Sequential(*head))


def _last_norm(design: Design) -> list[nn.Module]:
    """The norm after the last block, where the stream itself was never normalized."""
    return [design.new_norm()] if design.norm in ("pre", "sandwich") else []
