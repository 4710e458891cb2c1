"""Self-attention: every token looks at the others and takes what it finds."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.errors import UsageError

_ROTARY_BASE = 10_000.0  # the slowest angle turns once in about 2π · base tokens


class Attention(nn.Module):
    """softmax(Q Kᵀ/√d) V in several heads, then a linear layer.

    Args:
        width: of the tokens; a multiple of `heads`.
        heads: how many.
        causal: whether a token sees only those before it and itself.
        rotary: whether queries and keys are turned by angles that tell their position.
        query_norm: normalizes each head's queries; None for none.
        key_norm: the same of the keys.
        bias: whether the linear layers have one.

    Examples:
        >>> Attention(8, heads=2, causal=True)(torch.randn(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        causal: bool,
        rotary: bool = False,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if width % heads:
            raise UsageError(
                f"The width is a multiple of the number of heads, but {width} and {heads} were given."
            )
        if rotary and (width // heads) % 2:
            raise UsageError(
                f"Rotary positions turn pairs of features, but a head has {width // heads} of them; "
                "choose width and heads with an even quotient."
            )
        self.heads = heads
        self.causal = causal
        self.rotary = rotary
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.query_norm = query_norm
        self.key_norm = key_norm
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x: Float[Tensor, " n t d"]) -> Float[Tensor, " n t d"]:
        """What every token takes from the tokens that it sees."""
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        query = query if self.query_norm is None else self.query_norm(query)
        key = key if self.key_norm is None else self.key_norm(key)
        if self.rotary:
            query, key = rotate(query), rotate(key)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, x: Tensor) -> Tensor:
        result: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return result


def rotate(x: Float[Tensor, " n h t d"]) -> Float[Tensor, " n h t d"]:
    """Turn the features of a token at position p in pairs by p·base^(−2i/d), i = 0 … d/2 − 1.

    The scalar product of two turned vectors depends on the distance of their positions alone.

    Examples:
        >>> x = torch.randn(1, 1, 6, 4, dtype=torch.float64)
        >>> torch.allclose(rotate(x).norm(dim=-1), x.norm(dim=-1))
        True
    """
    half = x.shape[-1] // 2
    step = torch.arange(half, device=x.device, dtype=torch.float64)
    position = torch.arange(x.shape[-2], device=x.device, dtype=torch.float64)
    angle = position[:, None] * _ROTARY_BASE ** (-step / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
