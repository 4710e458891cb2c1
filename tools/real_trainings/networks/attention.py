"""A transformer block with the norm before, after or nowhere, and a causal language model of it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.real_trainings.networks.parts import ACTIVATIONS


class TransformerBlock(nn.Module):
    """Self-attention and a two-layer feed-forward part; `norm` is pre, post or none."""

    def __init__(
        self, width: int, heads: int, norm: str, activation: str, *, is_causal: bool = False
    ) -> None:
        super().__init__()
        self.order, self.heads, self.is_causal = norm, heads, is_causal
        self.norms = nn.ModuleList(
            [nn.LayerNorm(width) if norm != "none" else nn.Identity() for _ in range(2)]
        )
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 2 * width), ACTIVATIONS[activation](), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, of the same shape as its input."""
        if self.order == "post":
            x = self.norms[0](x + self._attend(x))
            return self.norms[1](x + self.feed_forward(x))
        x = x + self._attend(self.norms[0](x))
        return x + self.feed_forward(self.norms[1](x))

    def _attend(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        heads = self.qkv(x).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class TokenTransformer(nn.Module):
    """Embedding, learned positions, transformer blocks and a head at every token."""

    def __init__(
        self,
        vocabulary: int,
        num_outputs: int,
        *,
        length: int,
        is_causal: bool,
        width: int,
        depth: int,
        heads: int,
        norm: str,
        activation: str,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.blocks = nn.Sequential(
            *(
                TransformerBlock(width, heads, norm, activation, is_causal=is_causal)
                for _ in range(depth)
            )
        )
        self.norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.head = nn.Linear(width, num_outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        """Outputs at every token."""
        x = self.embedding(tokens) + self.positions[:, : tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))
