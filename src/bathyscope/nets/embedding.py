"""What makes a row of tokens out of text or of an image, and text out of tokens again."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import fill_normal_

Positions = Literal["learned", "rotary", "none"]

_STD = 0.02  # of tables and class tokens, as GPT-2, BERT and ViT draw them


class TokenEmbedding(nn.Module):
    """A vector for every token, plus one for its position where positions are learned.

    Args:
        vocabulary: how many tokens there are.
        context: the most tokens of a sequence.
        width: of the vectors.
        positions: learned here; rotary ones are made in the attention.
        norm: applied to the sum, as BERT does; nothing if left out.
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        width: int,
        *,
        positions: Positions = "learned",
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width) if positions == "learned" else None
        self.norm = norm

    def draw_(self, generator: torch.Generator | None) -> None:
        """Draw both tables from N(0, 0.02²)."""
        for table in (self.token, self.position):
            if table is not None:
                fill_normal_(table.weight.detach(), _STD, generator)

    def forward(self, tokens: Int64[Tensor, " n t"]) -> Float[Tensor, " n t d"]:
        """The vectors of sequences of tokens."""
        self._check(tokens)
        x = self.token(tokens)
        if self.position is not None:
            x = x + self.position.weight[: tokens.shape[1]]
        result: Tensor = x if self.norm is None else self.norm(x)
        return result

    def _check(self, tokens: Tensor) -> None:
        if tokens.shape[1] == 0:
            raise UsageError("The sequences are empty; give at least one token each.")
        if tokens.shape[1] > self.context:
            raise UsageError(
                f"The sequences have {tokens.shape[1]} tokens, but the network takes at most "
                f"{self.context}; cut them, or build it with a larger context."
            )
        if tokens.is_meta:  # shapes alone
            return
        low, high = torch.stack(tokens.aminmax()).tolist()  # on a device one wait for both
        if low < 0 or high >= self.token.num_embeddings:
            raise UsageError(
                f"Tokens run from {low} to {high}, but the vocabulary has "
                f"{self.token.num_embeddings}; tokens lie in 0 to {self.token.num_embeddings - 1}."
            )


class PatchEmbedding(nn.Module):
    """A vector for every patch of an image, with one more for the class in front, and positions.

    Args:
        in_channels: of the image.
        image_size: its side, a multiple of `patch`.
        patch: side of the squares it is cut into.
        width: of the vectors.
        positions: learned here; rotary ones are made in the attention.
    """

    def __init__(
        self,
        in_channels: int,
        image_size: int,
        patch: int,
        width: int,
        *,
        positions: Positions = "learned",
    ) -> None:
        super().__init__()
        if image_size % patch:
            raise UsageError(
                f"The side of the image is a multiple of the patch, but {image_size} and {patch} "
                "were given."
            )
        self.image_size = image_size
        self.projection = nn.Conv2d(in_channels, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(width))
        num_tokens = (image_size // patch) ** 2 + 1
        self.position = nn.Embedding(num_tokens, width) if positions == "learned" else None

    def draw_(self, generator: torch.Generator | None) -> None:
        """Draw the class token and the positions from N(0, 0.02²)."""
        fill_normal_(self.class_token.detach(), _STD, generator)
        if self.position is not None:
            fill_normal_(self.position.weight.detach(), _STD, generator)

    def forward(self, image: Float[Tensor, " n c h w"]) -> Float[Tensor, " n t d"]:
        """The class token and the patches, row by row."""
        if image.shape[2:] != (self.image_size, self.image_size):
            raise UsageError(
                f"The images are {image.shape[2]} × {image.shape[3]}, but the network takes "
                f"{self.image_size} × {self.image_size}; build it with another image_size."
            )
        patches = self.projection(image).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(image), 1, -1)
        x = torch.cat([first, patches], dim=1)
        return x if self.position is None else x + self.position.weight


class TiedLinear(nn.Module):
    """Logits x Eᵀ (+ b) by the table E of an embedding, which stays one parameter.

    Examples:
        >>> table = nn.Embedding(7, 3)
        >>> TiedLinear(table)(torch.randn(2, 5, 3)).shape
        torch.Size([2, 5, 7])
    """

    def __init__(self, table: nn.Embedding, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = table.weight
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings)) if bias else None

    def forward(self, x: Float[Tensor, " *n d"]) -> Float[Tensor, " *n v"]:
        """One logit for each token of the vocabulary."""
        return F.linear(x, self.weight, self.bias)


class ClassToken(nn.Module):
    """The first token of every sequence."""

    def forward(self, x: Float[Tensor, " n t d"]) -> Float[Tensor, " n d"]:
        """Its vector."""
        return x[:, 0]
