"""The networks of the random trainings, in plain torch: they must never change under the table."""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tools.forecast_table.draw import Draw
from tools.forecast_table.tasks import LENGTH, NUM_TOKENS, TableTask, task

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "sigmoid": nn.Sigmoid,
}
_HEADS = 4
_SIDE = 8
Map = Callable[[int, int], nn.Module]


class Channels(nn.Module):
    """Layer normalization over the channels of pictures, at each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures of the same shape."""
        result: Tensor = self.norm(x.movedim(1, -1)).movedim(-1, 1)
        return result


class Tokens(nn.Module):
    """Batch normalization over all tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of the same shape."""
        result: Tensor = self.norm(x.flatten(0, 1)).reshape(x.shape)
        return result


class BranchStep(nn.Module):
    """One block: a branch, what it is added to, and what follows the sum."""

    def __init__(self, branch: nn.Module, shortcut: str, after: nn.Module, *, scale: float) -> None:
        super().__init__()
        self.branch, self.after = branch, after
        self.shortcut, self.scale = shortcut, scale

    def forward(self, x: Tensor) -> Tensor:
        """x_{l+1} = after(x_l + scale · branch(x_l)), without x_l where there is no shortcut."""
        out = self.branch(x) * self.scale if self.scale != 1.0 else self.branch(x)
        result: Tensor = self.after(out if self.shortcut == "none" else x + out)
        return result


class Growth(nn.Module):
    """One block of a densely connected network: its output is appended to its input."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        """The input and what was made from it."""
        return torch.cat((x, self.branch(x)), 1)


class Across(nn.Module):
    """A map over tokens in place of dimensions."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of the same shape."""
        result: Tensor = self.branch(x.mT).mT
        return result


class TableAttention(nn.Module):
    """Multi-head self-attention, causal or not."""

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of the same shape."""
        n, length, width = x.shape
        parts = self.mix(x).reshape(n, length, 3, _HEADS, width // _HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        result: Tensor = self.out(seen.transpose(1, 2).reshape(n, length, width))
        return result


class RowTokens(nn.Module):
    """The rows of a picture as tokens, with their places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(_SIDE, width)
        self.locations = nn.Parameter(0.02 * torch.randn(_SIDE, width))

    def forward(self, x: Tensor) -> Tensor:
        """Eight tokens a picture."""
        result: Tensor = self.embed(x.squeeze(1)) + self.locations
        return result


class Words(nn.Module):
    """The embeddings of tokens and of their places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(NUM_TOKENS, width)
        self.locations = nn.Parameter(0.02 * torch.randn(LENGTH, width))

    def forward(self, x: Tensor) -> Tensor:
        """One vector a token."""
        result: Tensor = self.embed(x) + self.locations
        return result


class Mean(nn.Module):
    """The mean over tokens, or over places."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        """One vector a sample."""
        return x.mean(self.axes)


class NextToken(nn.Module):
    """Logits of the next token with the classes on axis 1, as cross-entropy wants them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, NUM_TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        result: Tensor = self.head(x).mT
        return result


class Trunk(nn.Module):
    """A stem, blocks that follow one another, and a head."""

    def __init__(self, stem: nn.Module, blocks: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = stem, nn.ModuleList(blocks), head

    def forward(self, x: Tensor) -> Tensor:
        """Logits or numbers."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(x)
        return result


def network(drawn: Draw, *, seed: int = 0) -> nn.Module:
    """The network of a draw at its start.

    Args:
        drawn: the draw.
        seed: which of the starts.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1_000 * drawn.number + seed)
        model = _FAMILIES[drawn.family](drawn, task(drawn.task))
        _start_(model, drawn.start)
    return model


def _mlp(drawn: Draw, data: TableTask) -> nn.Module:
    width = drawn.width
    blocks = [
        _block(drawn, _layers(drawn, nn.Linear, [width] * (drawn.layers + 1)))
        for _ in _range(drawn)
    ]
    stem = nn.Sequential(nn.Flatten(), nn.Linear(_SIDE**2, width))
    return Trunk(stem, blocks, nn.Linear(width, data.num_outputs))


def _sequential(drawn: Draw, data: TableTask) -> nn.Module:
    parts: list[nn.Module] = [nn.Flatten()]
    width = _SIDE**2
    for _ in _range(drawn):
        parts += _layers(drawn, nn.Linear, [width, drawn.width])
        width = drawn.width
    return nn.Sequential(*parts, nn.Linear(width, data.num_outputs))


def _conv(drawn: Draw, data: TableTask) -> nn.Module:
    """Half of the blocks, a transition to twice the channels and half the side, the other half."""
    width, blocks = drawn.width, list[nn.Module]()
    for index in _range(drawn):
        if index == drawn.blocks // 2:
            blocks.append(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1))
            width = 2 * width
        blocks.append(_block(drawn, _layers(drawn, _spatial, [width] * (drawn.layers + 1))))
    head = nn.Sequential(Mean(2, 3), nn.Linear(width, data.num_outputs))
    return Trunk(nn.Conv2d(1, drawn.width, 3, padding=1), blocks, head)


def _bottleneck(drawn: Draw, data: TableTask) -> nn.Module:
    """Blocks of a 1×1, a 3×3 and a 1×1 convolution, the middle one narrow."""
    wide, narrow = 2 * drawn.width, drawn.width
    blocks = []
    for _ in _range(drawn):
        parts = _layers(drawn, _pointwise, [wide, narrow])
        parts += _layers(drawn, _spatial, [narrow, narrow])
        parts += _layers(drawn, _pointwise, [narrow, wide])
        blocks.append(_block(drawn, parts))
    stem = nn.Conv2d(1, wide, 3, stride=2, padding=1)
    return Trunk(stem, blocks, nn.Sequential(Mean(2, 3), nn.Linear(wide, data.num_outputs)))


def _dense(drawn: Draw, data: TableTask) -> nn.Module:
    growth, width = drawn.width, 2 * drawn.width
    stem = nn.Sequential(nn.Flatten(), nn.Linear(_SIDE**2, width))
    blocks: list[nn.Module] = []
    for _ in _range(drawn):
        blocks.append(Growth(nn.Sequential(*_layers(drawn, nn.Linear, [width, growth]))))
        width += growth
    return Trunk(stem, blocks, nn.Linear(width, data.num_outputs))


def _mixer(drawn: Draw, data: TableTask) -> nn.Module:
    width, blocks = drawn.width, list[nn.Module]()
    for _ in _range(drawn):
        tokens = Across(_feed_forward(drawn, _SIDE))
        blocks += [_attending(drawn, tokens), _attending(drawn, _feed_forward(drawn, width))]
    head = nn.Sequential(Mean(1), nn.Linear(width, data.num_outputs))
    return Trunk(RowTokens(width), blocks, head)


def _transformer(drawn: Draw, data: TableTask) -> nn.Module:
    head = nn.Sequential(Mean(1), nn.Linear(drawn.width, data.num_outputs))
    return Trunk(RowTokens(drawn.width), _attention_blocks(drawn, causal=False), head)


def _gpt(drawn: Draw, data: TableTask) -> nn.Module:
    blocks = _attention_blocks(drawn, causal=True)
    return Trunk(Words(drawn.width), blocks, NextToken(drawn.width))


_FAMILIES: dict[str, Callable[[Draw, TableTask], nn.Module]] = {
    "mlp": _mlp,
    "sequential": _sequential,
    "conv": _conv,
    "bottleneck": _bottleneck,
    "dense": _dense,
    "mixer": _mixer,
    "transformer": _transformer,
    "gpt": _gpt,
}


def _range(drawn: Draw) -> range:
    return range(drawn.blocks)


def _spatial(inside: int, outside: int) -> nn.Module:
    return nn.Conv2d(inside, outside, 3, padding=1)


def _pointwise(inside: int, outside: int) -> nn.Module:
    return nn.Conv2d(inside, outside, 1)


def _layers(drawn: Draw, kind: Map, widths: list[int]) -> list[nn.Module]:
    """Maps between widths, each with its normalization and activation in the order drawn."""
    parts: list[nn.Module] = []
    for inside, outside in itertools.pairwise(widths):
        act, one = _ACTIVATIONS[drawn.activation](), kind(inside, outside)
        norm = _norm(drawn.norm, inside if drawn.order == "pre" else outside, one)
        ordered = {"pre": (norm, act, one), "mid": (one, norm, act), "post": (one, act, norm)}
        parts += [part for part in ordered[drawn.order] if not isinstance(part, nn.Identity)]
    return parts


def _norm(name: str, width: int, beside: nn.Module | None) -> nn.Module:
    if name == "none":
        return nn.Identity()
    if isinstance(beside, nn.Conv2d):
        return nn.BatchNorm2d(width) if name == "batch" else Channels(width)
    return nn.BatchNorm1d(width) if name == "batch" else nn.LayerNorm(width)


def _block(drawn: Draw, parts: list[nn.Module]) -> nn.Module:
    """A block; one with an activation after the sum has none at the end of its branch."""
    after: nn.Module = nn.Identity()
    if drawn.shortcut == "post":
        after = _ACTIVATIONS[drawn.activation]()
        if type(parts[-1]) is type(after):
            parts = parts[:-1]
    return BranchStep(nn.Sequential(*parts), drawn.shortcut, after, scale=_scale(drawn))


def _scale(drawn: Draw) -> float:
    return 1 / math.sqrt(drawn.blocks) if drawn.shortcut == "scaled" else 1.0


def _attention_blocks(drawn: Draw, *, causal: bool) -> list[nn.Module]:
    """Attention and feed-forward in turn, each a block."""
    blocks: list[nn.Module] = []
    for _ in _range(drawn):
        blocks.append(_attending(drawn, TableAttention(drawn.width, causal=causal)))
        blocks.append(_attending(drawn, _feed_forward(drawn, drawn.width)))
    return blocks


def _attending(drawn: Draw, branch: nn.Module) -> nn.Module:
    """A branch over tokens, normalized before it or after the sum."""
    norm = _token_norm(drawn)
    if drawn.order == "pre":
        branch, norm = nn.Sequential(norm, branch), nn.Identity()
    if drawn.shortcut == "post":
        norm = nn.Sequential(_ACTIVATIONS[drawn.activation](), norm)
    return BranchStep(branch, drawn.shortcut, norm, scale=_scale(drawn))


def _token_norm(drawn: Draw) -> nn.Module:
    if drawn.norm == "none":
        return nn.Identity()
    return Tokens(drawn.width) if drawn.norm == "batch" else nn.LayerNorm(drawn.width)


def _feed_forward(drawn: Draw, width: int) -> nn.Module:
    act = _ACTIVATIONS[drawn.activation]()
    return nn.Sequential(nn.Linear(width, 2 * width), act, nn.Linear(2 * width, width))


@torch.no_grad()
def _start_(model: nn.Module, scheme: str) -> None:
    """Re-initialize every weight matrix and kernel, biases zero; `default` leaves torch's own start."""
    if scheme == "default":
        return
    for module in model.modules():
        if not isinstance(module, (nn.Linear, nn.Conv2d)):
            continue
        fan = module.weight[0].numel()
        if scheme == "orthogonal":
            nn.init.orthogonal_(module.weight)
        elif scheme == "xavier":
            nn.init.xavier_normal_(module.weight)
        else:
            gain = {"he": 1.0, "small": 0.3, "large": 1.5}[scheme]
            module.weight.normal_(0, gain * math.sqrt(2 / fan))
        assert module.bias is not None, "all layers of these networks have biases"
        module.bias.zero_()
