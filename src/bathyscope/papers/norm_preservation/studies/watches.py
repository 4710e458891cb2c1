"""What is measured of a network of this paper while it trains."""

from collections.abc import Iterator

import torch.nn.functional as F
from torch import nn

from bathyscope import measure
from bathyscope.core.blocks import blocks_of
from bathyscope.remedies import transition_layers
from bathyscope.training import Examples


def ratios(model: nn.Module, probe: Examples) -> Iterator[dict[str, object]]:
    """The gradient-norm ratio of every block, and of every transition layer.

    `part` is `block`, `convolution` (the bare transition layer) or `normalized convolution` (the
    chain that holds it, where it is one).
    """
    blocks = blocks_of(model, probe[0])
    layers = list(transition_layers(model))
    parts = {block.name: "block" for block in blocks}
    around = [name.rpartition(".")[0] for name in layers]
    parts |= {n: "normalized convolution" for n in around if n and n not in parts}
    parts |= dict.fromkeys(layers, "convolution")
    result = measure.gradients(model, probe, loss=F.cross_entropy, blocks=list(parts))
    changes = {block.name for block in blocks if block.changes_dimension}
    weighted = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    stem = weighted[:1]  # the convolution that meets the image, where it is a transition
    for block, ratio in zip(result.blocks, result["ratio"], strict=True):
        yield {
            "block": block.name,
            "index": block.index,
            "part": parts[block.name],
            "transition": parts[block.name] != "block" or block.name in changes,
            "stem": block.name in stem,
            "ratio": ratio,
        }
