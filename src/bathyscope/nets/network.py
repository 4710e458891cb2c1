"""A network: stem, blocks in a row, head."""

from collections.abc import Iterable

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from bathyscope.nets.block import ResidualBlock


class Network(nn.Module):
    """head(block_L(… block_1(stem(x)))).

    Args:
        blocks: in the order of the forward pass, each taking the output of the one before.
        stem: what comes before the first block; nothing if left out.
        head: what comes after the last block; nothing if left out.

    Examples:
        >>> from bathyscope import nets
        >>> nets.build("resnet-8").block_names()
        ('blocks.0', 'blocks.1', 'blocks.2')
    """

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        *,
        stem: nn.Module | None = None,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.stem = nn.Identity() if stem is None else stem
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Identity() if head is None else head

    def forward(self, x: Shaped[Tensor, " n *in"]) -> Float[Tensor, " n *out"]:
        """Outputs, for instance logits, one row per sample."""
        result: Tensor = self.head(self.blocks(self.stem(x)))
        return result

    def block_names(self) -> tuple[str, ...]:
        """Qualified names of the blocks, first to last."""
        return tuple(f"blocks.{i}" for i in range(len(self.blocks)))

    def transition_layers(self) -> dict[str, nn.Conv2d]:
        """The convolutions that change the dimension on their own, before a block splits in two.

        These are the layers a Procrustes ResNet keeps norm-preserving (norm_preservation,
        section 3, conv* in figure 1); other networks have none. Name and layer, first to last.
        """
        result = {}
        for name in self.block_names():
            block = self.get_submodule(name)
            if isinstance(block, ResidualBlock) and isinstance(block.entry, nn.Conv2d):
                result[f"{name}.entry"] = block.entry
        return result
