"""A language of few words with a law that can be learned, and a small transformer for it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WORDS = 12


def sentences(num: int, length: int = 16) -> Tensor:
    """Each word follows from the last but one, three times in four."""
    tokens = torch.randint(WORDS, (num, length))
    for t in range(2, length):
        follows = (5 * tokens[:, t - 2] + 3) % WORDS
        tokens[:, t] = torch.where(torch.rand(num) < 0.75, follows, tokens[:, t])
    return tokens


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = (
            self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        mixed = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, *, causal: bool = True, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.position = nn.Parameter(0.1 * torch.randn(64, width))
        self.layers = nn.ModuleList(Layer(width, 2, causal) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@torch.no_grad()
def generation_loss(model: nn.Module, num: int = 128) -> float:
    """Cross-entropy of the word that follows a prefix, of which the model sees nothing more."""
    tokens = sentences(num)
    losses = [
        F.cross_entropy(model(tokens[:, :t])[:, -1], tokens[:, t])
        for t in range(4, tokens.shape[1], 3)
    ]
    return float(sum(losses) / len(losses))
