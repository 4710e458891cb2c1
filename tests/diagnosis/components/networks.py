"""Small transformers written out part by part, so that a fault can be planted in any part of any block.

GPT (decoder with a cache), BERT (encoder with padding, one answer for a sequence), ViT (patches) and T5
(encoder and decoder, RMS norms, relative positions, no scale on the scores).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, LENGTH, WIDTH, HEADS, CLASSES, SAMPLES = 40, 16, 32, 4, 4, 8


class RootMeanSquareNorm(nn.Module):
    """x · gain/√(mean x² + ε), as T5 writes it."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = eps

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * x * torch.rsqrt(variance + self.variance_epsilon)


class Attention(nn.Module):
    """Projections, scores, mask, softmax, values, merging: each a method that can be replaced."""

    def __init__(self, *, causal: bool, scaled: bool = True) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.causal, self.scaled = causal, scaled

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        scores = query @ key.transpose(-1, -2)
        return scores / math.sqrt(query.shape[-1]) if self.scaled else scores

    def mask(self, scores: Tensor, is_padding: Tensor | None) -> Tensor:
        if self.causal:
            queries, keys = scores.shape[-2:]
            ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
            scores = scores.masked_fill(ahead, -math.inf)
        if is_padding is not None:
            scores = scores.masked_fill(is_padding[:, None, None], -1e9)
        return scores

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def remember(self, past: tuple[Tensor, Tensor] | None, key: Tensor, value: Tensor):
        if past is None:
            return key, value
        return torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)

    def forward(self, x, source=None, *, is_padding=None, bias=None, past=None):
        source = x if source is None else source
        query, key = self.split(self.query(x)), self.split(self.key(source))
        key, value = self.remember(past, key, self.split(self.value(source)))
        scores = self.score(query, key)
        scores = self.mask(scores if bias is None else scores + bias, is_padding)
        return self.out(self.merge(self.weigh(scores) @ value)), (key, value)


class Block(nn.Module):
    """Attention, attention to a source where there is one, and feed-forward, each behind its norm."""

    def __init__(self, *, causal: bool, rms: bool = False, cross: bool = False) -> None:
        super().__init__()
        norm = RootMeanSquareNorm if rms else nn.LayerNorm
        self.attention_norm, self.attention = norm(WIDTH), Attention(causal=causal, scaled=not rms)
        self.cross_norm = norm(WIDTH) if cross else None
        self.cross = Attention(causal=False, scaled=not rms) if cross else None
        self.mlp_norm = norm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def activate(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    def add(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def feed(self, x: Tensor) -> Tensor:
        return self.down(self.activate(self.up(x)))

    def forward(
        self, x, source=None, *, is_padding=None, source_padding=None, bias=None, past=None
    ):
        branch, present = self.attention(
            self.attention_norm(x), is_padding=is_padding, bias=bias, past=past
        )
        x = self.add(x, branch)
        if self.cross is not None and self.cross_norm is not None:
            x = x + self.cross(self.cross_norm(x), source, is_padding=source_padding)[0]
        return self.add(x, self.feed(self.mlp_norm(x))), present


class Transformer(nn.Module):
    """What the four have in common: their blocks, a table for positions, a last norm and a head."""

    def __init__(self, blocks: int, *, causal: bool, outputs: int, length: int = LENGTH) -> None:
        super().__init__()
        self.position = nn.Embedding(length, WIDTH)
        self.blocks = nn.ModuleList(Block(causal=causal) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, outputs)

    def positions(self, x: Tensor, begin: int = 0) -> Tensor:
        return self.position(torch.arange(begin, begin + x.shape[1]))


class Gpt(Transformer):
    """Next tokens, whole or in cached parts."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__(blocks, causal=True, outputs=VOCABULARY)
        self.token = nn.Embedding(VOCABULARY, WIDTH)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.token(tokens)

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        begin = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        x = self.embed(input_ids)
        x = x + self.positions(x, begin)
        presents = []
        for number, block in enumerate(self.blocks):
            x, present = block(x, past=None if past_key_values is None else past_key_values[number])
            presents.append(present)
        logits = self.head(self.norm(x))
        return {"logits": logits, "past_key_values": presents} if use_cache else logits


class Bert(Transformer):
    """One answer for a padded sequence, from its first token."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__(blocks, causal=False, outputs=CLASSES)
        self.token = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)

    def pool(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return x[:, 0]

    def forward(self, input_ids, attention_mask):
        x = self.token(input_ids)
        x = x + self.positions(x)
        for block in self.blocks:
            x, _ = block(x, is_padding=attention_mask == 0)
        return self.head(self.pool(self.norm(x), attention_mask))


class Vit(Transformer):
    """One answer for an image, from the mean of its patches."""

    def __init__(self, blocks: int = 4) -> None:
        super().__init__(blocks, causal=False, outputs=CLASSES)
        self.patch = nn.Conv2d(3, WIDTH, 4, stride=4)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = x + self.positions(x)
        for block in self.blocks:
            x, _ = block(x)
        return self.head(self.norm(x).mean(1))


class T5(nn.Module):
    """An encoder of padded tokens and a decoder that reads it, with relative positions."""

    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.ModuleList(Block(causal=False, rms=True) for _ in range(blocks))
        self.decoder = nn.ModuleList(
            Block(causal=True, rms=True, cross=True) for _ in range(blocks)
        )
        self.relative = nn.ModuleList(nn.Embedding(2 * LENGTH, HEADS) for _ in range(2))
        self.norm = RootMeanSquareNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def bias(self, table: nn.Embedding, length: int) -> Tensor:
        steps = torch.arange(length)
        return table(steps[None] - steps[:, None] + LENGTH).permute(2, 0, 1)

    def source(self, x: Tensor, encoded: Tensor) -> Tensor:
        return encoded

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        hidden = attention_mask == 0
        encoded = self.token(input_ids)
        for block in self.encoder:
            bias = self.bias(self.relative[0], encoded.shape[1])
            encoded, _ = block(encoded, is_padding=hidden, bias=bias)
        x = self.token(decoder_input_ids)
        for block in self.decoder:
            bias = self.bias(self.relative[1], x.shape[1])
            x, _ = block(x, self.source(x, encoded), source_padding=hidden, bias=bias)
        return self.head(self.norm(x))


def draw_(model: nn.Module, seed: int = 0) -> nn.Module:
    """GPT-2's initialization; T5's table has a deviation of 1."""
    generator = torch.Generator().manual_seed(seed)
    table = 1.0 if isinstance(model, T5) else 0.02
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            with torch.no_grad():
                module.weight.normal_(
                    0, table if isinstance(module, nn.Embedding) else 0.08, generator=generator
                )
                if isinstance(module, nn.Linear) and module.bias is not None:
                    module.bias.zero_()
                if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                    module.weight[module.padding_idx].zero_()
    for module in model.modules():
        if isinstance(module, Attention) and not module.scaled:
            # what 1/√d does is done to the queries
            module.query.weight.data.div_(math.sqrt(WIDTH // HEADS))
    return model


def batch_of(family: str, seed: int = 0) -> tuple[object, Tensor]:
    """Inputs and targets that fit the family."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCABULARY, (SAMPLES, LENGTH), generator=generator)
    lengths = torch.randint(LENGTH // 2, LENGTH, (SAMPLES,), generator=generator)
    lengths[0] = LENGTH
    mask = (torch.arange(LENGTH)[None] < lengths[:, None]).long()
    classes = torch.arange(SAMPLES) % CLASSES
    if family == "gpt":
        return tokens, tokens.roll(-1, 1)
    if family == "vit":
        return torch.randn(SAMPLES, 3, 16, 16, generator=generator), classes
    inputs = {"input_ids": tokens * mask, "attention_mask": mask}
    if family == "bert":
        return inputs, classes
    answers = torch.randint(1, VOCABULARY, (SAMPLES, 12), generator=generator)
    return {**inputs, "decoder_input_ids": F.pad(answers, (1, 0))[:, :-1]}, answers


def loss(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of tokens or of samples."""
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


FAMILIES = {"gpt": Gpt, "bert": Bert, "vit": Vit, "t5": T5}


def build(family: str, seed: int = 0) -> nn.Module:
    """A healthy network of a family."""
    torch.manual_seed(seed)
    return draw_(FAMILIES[family](), seed)
