"""What one call of attention does with its queries, head by head, from a sample of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from bathyscope.core.fetch import SMALL, Readings, in_parts
from bathyscope.linalg.conditioning import conditioning_of_many
from bathyscope.measure.attention_calls import AttentionCall, in_heads

SAMPLES = 4
"""Samples of the batch whose scores are computed again."""

QUERIES = 32
"""Queries of each of them, spread evenly, the last one among them."""

_MOST_KEPT = 2**22
"""Entries of queries, keys and values that are kept: 16 MB in float32."""

UNIFORM = 0.999
"""A row with this fraction of the largest entropy counts as uniform."""

ONE_HOT = 0.99
"""A row that gives one key this weight counts as one-hot."""

# A mask of a large negative number in place of −∞ hides as well: exp(−80) is 2e-35 (Swin's masks are −100).
# Scores themselves may be that large; where the mask is not known, only the largest numbers hide.
_HIDDEN, _SURELY_HIDDEN = -80.0, -1e8


@dataclass(frozen=True, slots=True, eq=False)
class HeadStatistics:
    """Statistics of a call of attention, one value per head.

    Attributes:
        entropy: mean over rows of −Σ p ln p / ln(number of keys seen), 0 for one-hot and 1 for
            uniform rows; rows that see one key alone are left out.
        largest_logit: largest |q·k·scale| among the keys that are seen.
        logit_std: deviation of a row's scores over the keys it sees, mean over rows.
        uniform_rows, one_hot_rows: fraction of the rows that see two keys or more.
        masked_rows: fraction of rows that see no key at all.
        rank: numerical rank of the sampled rows of the attention matrix, mean over samples.
        full_rank: what it could be.
        output: size of what each head gives out; None where the values were not seen.
        equal_heads: how many heads give out what one before them does.
        tied: which of queries, keys and values are the same tensor; None where none are.
        query_over_key: root mean square of the queries over that of the keys.
    """

    entropy: Float[Tensor, " h"]
    largest_logit: Float[Tensor, " h"]
    logit_std: Float[Tensor, " h"]
    uniform_rows: Float[Tensor, " h"]
    one_hot_rows: Float[Tensor, " h"]
    masked_rows: Float[Tensor, " h"]
    rank: Float[Tensor, " h"]
    full_rank: int
    output: Float[Tensor, " h"] | None
    equal_heads: int = 0
    tied: str | None = None
    query_over_key: float | None = None


def head_statistics(
    call: AttentionCall, *, samples: int = SAMPLES, queries: int = QUERIES
) -> HeadStatistics:
    """The statistics of a call from at most this many samples and queries of each.

    Examples:
        >>> zeros = torch.zeros(1, 2, 4, 3)
        >>> found = head_statistics(AttentionCall(query=zeros, key=zeros, value=zeros, scale=1.0))
        >>> found.entropy.tolist(), found.uniform_rows.tolist(), found.rank.tolist()
        ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    """
    result: list[HeadStatistics] = []
    read_head_statistics(Readings(), call, result.append, samples=samples, queries=queries)
    return result[0]


def read_head_statistics(
    readings: Readings,
    call: AttentionCall,
    then: Callable[[HeadStatistics], None],
    *,
    samples: int = SAMPLES,
    queries: int = QUERIES,
) -> None:
    """Call `then` with `head_statistics`, of a device once the pass is over."""
    _read_heads(readings, call, [then], samples=samples, queries=queries)


class HeadReader:
    """Reads calls of attention; small ones of one form, as those of all blocks are, together after the pass.

    Of small heads the calls that reduce them cost more than the numbers.
    """

    def __init__(self, readings: Readings, *, samples: int, queries: int) -> None:
        self.readings = readings
        self.samples = samples
        self.queries = queries
        self.kept: dict[object, list[tuple[AttentionCall, Callable[[HeadStatistics], None]]]] = {}
        self.entries = 0

    def add(self, call: AttentionCall, then: Callable[[HeadStatistics], None]) -> None:
        """Call `then` with `head_statistics`: at once, or after the pass."""
        query, key, value = call.query, call.key, call.value
        if (
            query is None or key is None or value is None
            or call.scores is not None or call.mask is not None
            or not all(t.device.type == "cpu" and t.numel() <= SMALL for t in (query, key, value))
            or not query.shape[1] == key.shape[1] == value.shape[1]
        ):  # fmt: skip
            self._read(call, [then])
            return
        # copies: the tensors of a pass may be overwritten after the call that shows them
        copies = [t.detach().clone() for t in (query, key, value)]
        form = tuple((t.shape, t.dtype) for t in copies), call.causal, call.scale, call.head_width
        kept = replace(call, query=copies[0], key=copies[1], value=copies[2], differentiable=None)
        self.kept.setdefault(form, []).append((kept, then))
        self.entries += sum(t.numel() for t in copies)
        if self.entries > _MOST_KEPT:
            self.flush()

    def flush(self) -> None:
        """Read what is kept, and what the readings still have to fetch."""
        kept, self.kept, self.entries = self.kept, {}, 0
        for pairs in kept.values():
            sizes = [self._num_scores(call) for call, _ in pairs]
            for part in in_parts(pairs, sizes):
                calls, thens = zip(*part, strict=True)
                beside = {
                    name: torch.cat([getattr(call, name) for call in calls], dim=1)
                    for name in ("query", "key", "value")
                }
                self._read(replace(calls[0], **beside), thens)
        self.readings.flush()

    def _num_scores(self, call: AttentionCall) -> int:
        assert call.query is not None
        assert call.key is not None
        samples, heads, tokens, _ = call.query.shape
        return min(samples, self.samples) * heads * min(tokens, self.queries) * call.key.shape[2]

    def _read(self, call: AttentionCall, thens: Sequence[Callable[[HeadStatistics], None]]) -> None:
        _read_heads(self.readings, call, thens, samples=self.samples, queries=self.queries)


def _read_heads(
    readings: Readings,
    call: AttentionCall,
    thens: Sequence[Callable[[HeadStatistics], None]],
    *,
    samples: int,
    queries: int,
) -> None:
    """The statistics of a call, or of several whose heads stand beside one another in it."""
    num_calls = len(thens)
    scores, seen = sampled_scores(call, samples=samples, queries=queries)
    num_seen = seen.sum(-1)
    weights = _weights(scores, seen)
    several = num_seen >= 2
    relative = _relative_entropy(weights, num_seen)
    kept = torch.where(seen, scores, 0.0)
    centered = torch.where(seen, kept - kept.sum(-1, keepdim=True) / _some(num_seen), 0.0)
    deviation = (centered.square().sum(-1) / num_seen.clamp(min=1)).sqrt()
    mixed = _outputs(call, weights, samples)
    rows = [relative, deviation, (relative >= UNIFORM).to(scores.dtype)]
    rows.append((weights.amax(-1) >= ONE_HOT).to(scores.dtype))
    entropy, logit_std, uniform, one_hot = _mean(torch.stack(rows), several)
    by_head = torch.stack(
        [entropy, kept.abs().amax((0, 2, 3)), logit_std, uniform, one_hot,
         (num_seen == 0).to(scores.dtype).mean((0, 2)),
         *([] if mixed is None else [mixed.square().mean((0, 2, 3)).sqrt()])]
    )  # fmt: skip

    def read(numbers: Tensor, first: Tensor, alike: Tensor, apart: Tensor) -> None:
        of_heads = numbers.unflatten(1, (num_calls, -1)).unbind(1)
        ranks, full_rank = _ranks(first).view(num_calls, -1), min(first.shape[-2:])
        of_calls = zip(thens, of_heads, ranks, alike.tolist(), apart, strict=True)
        for then, each, rank, projections, distances in of_calls:
            then(_statistics(each, rank, full_rank, _read_alike(pairs, projections), distances))

    alike, pairs = _compare_projections(call, weights, num_calls)
    readings.add(read, by_head, weights[0], alike, _distances(mixed, weights, num_calls))


def _statistics(
    numbers: Float[Tensor, " n h"],
    rank: Float[Tensor, " h"],
    full_rank: int,
    alike: tuple[float | None, str | None],
    apart: Float[Tensor, " rows columns"],
) -> HeadStatistics:
    """The record of one call; the last of seven numbers of its heads is the size of what they give out."""
    entropy, largest_logit, logit_std, uniform, one_hot, masked, *sizes = numbers
    return HeadStatistics(
        entropy=entropy,
        largest_logit=largest_logit,
        logit_std=logit_std,
        uniform_rows=uniform,
        one_hot_rows=one_hot,
        masked_rows=masked,
        rank=rank,
        full_rank=full_rank,
        output=sizes[0] if sizes else None,
        equal_heads=_equal_heads(apart) if sizes and not bool((uniform == 1).all()) else 0,
        tied=alike[1],
        query_over_key=alike[0],
    )


def head_entropy(
    call: AttentionCall, *, samples: int = SAMPLES, queries: int = QUERIES
) -> Float[Tensor, " h"]:
    """The entropy of `head_statistics` alone, which costs less.

    Examples:
        >>> zeros = torch.zeros(1, 2, 4, 3)
        >>> head_entropy(AttentionCall(query=zeros, key=zeros, scale=1.0)).tolist()
        [1.0, 1.0]
    """
    scores, seen = sampled_scores(call, samples=samples, queries=queries)
    num_seen = seen.sum(-1)
    return _mean(_relative_entropy(_weights(scores, seen), num_seen), num_seen >= 2)


def _weights(scores: Tensor, seen: Tensor) -> Tensor:
    """Fractions of the keys that are seen; zeros in rows that see none."""
    return torch.softmax(torch.where(seen, scores, -math.inf), dim=-1).nan_to_num(0.0)


def _relative_entropy(weights: Tensor, num_seen: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(weights).sum(-1)
    return entropy / num_seen.clamp(min=2).log()


def sampled_scores(
    call: AttentionCall, *, samples: int = SAMPLES, queries: int = QUERIES
) -> tuple[Float[Tensor, " n h t k"], Bool[Tensor, " n h t k"]]:
    """Scores of a sample of queries against all keys, and which keys each of them sees.

    In float32 at least: the scores of a half-precision network are looked at, not its rounding.
    """
    rows = call.scores if call.scores is not None else call.query
    assert rows is not None
    batch = _spread(len(rows), samples, rows.device)
    tokens = _spread(rows.shape[2], queries, rows.device)
    chosen = rows[batch][:, :, tokens]
    chosen = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
    if call.scores is not None:
        seen = torch.isfinite(chosen) & (chosen > _SURELY_HIDDEN)
        if call.mask is not None:
            mask = _rows_of(call.mask, batch, tokens, rows.shape)
            seen = seen & (mask if mask.dtype == torch.bool else mask > _HIDDEN)
        return torch.where(seen, chosen, 0.0), seen
    assert call.key is not None
    assert call.scale is not None
    keys = call.key[batch].to(chosen.dtype)
    scores = chosen @ keys.transpose(-1, -2) * call.scale
    seen = torch.ones_like(scores, dtype=torch.bool)
    if call.causal:
        num_keys = keys.shape[2]
        seen &= torch.arange(num_keys, device=rows.device) <= tokens[:, None]
    if call.mask is not None:
        mask = _rows_of(call.mask, batch, tokens, rows.shape)
        if mask.dtype == torch.bool:
            seen = seen & mask
        else:
            mask = mask.to(scores.dtype)
            seen = seen & (mask > _HIDDEN)
            scores = scores + mask.clamp(min=_HIDDEN).nan_to_num(0.0)
    return scores, seen.expand_as(scores)


def _rows_of(mask: Tensor, batch: Tensor, tokens: Tensor, shape: torch.Size) -> Tensor:
    """The rows of a mask that belong to the sampled queries; axes of one entry stay."""
    mask = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape) if mask.ndim < 4 else mask
    if mask.shape[0] == shape[0] and shape[0] > 1:
        mask = mask[batch]
    return mask[:, :, tokens] if mask.shape[2] == shape[2] and shape[2] > 1 else mask


def _spread(length: int, most: int, device: torch.device) -> Tensor:
    """At most this many positions of a row, spread evenly, the last one among them."""
    if length <= most:
        return torch.arange(length, device=device)
    return torch.linspace(length / most - 1, length - 1, most, device=device).round().long()


def _some(count: Tensor) -> Tensor:
    return count.clamp(min=1).unsqueeze(-1)


def _mean(rows: Tensor, wanted: Tensor) -> Tensor:
    """Mean over samples and queries of those wanted, one per head; NaN where there is none."""
    total = torch.where(wanted, rows, 0.0).sum((-3, -1))
    return total / wanted.sum((0, 2))


def _ranks(first: Float[Tensor, " h t k"]) -> Float[Tensor, " h"]:
    """Numerical rank of each head's rows, of the first sample: as many values as are not rounding."""
    if not first.numel():
        return torch.full(first.shape[:1], math.nan, dtype=first.dtype, device=first.device)
    tolerance = max(first.shape[-2:]) * torch.finfo(first.dtype).eps
    spectra = conditioning_of_many(list(first), tolerances=[tolerance] * len(first))
    ranks = [math.nan if spectrum.rank is None else spectrum.rank for spectrum in spectra]
    return first.new_tensor(ranks)


def _outputs(call: AttentionCall, weights: Tensor, samples: int) -> Tensor | None:
    """What the heads give out for the sampled queries: (samples, heads, queries, features)."""
    if call.value is None:
        return None
    values = call.value[_spread(len(call.value), samples, call.value.device)].to(weights.dtype)
    result: Tensor = weights @ values
    return result


_SAME = 1e-4
"""Of their size: heads or projections that differ by less are one; those that were drawn lie √2 apart."""


def _distances(mixed: Tensor | None, like: Tensor, num_calls: int) -> Float[Tensor, " calls h h+1"]:
    """Distances of what each head gives out from what every other of its call does, and last its size."""
    if mixed is None:
        return like.new_zeros(num_calls, 0, 1)
    rows = mixed.transpose(0, 1).flatten(1).unflatten(0, (num_calls, -1))
    apart = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.cat([apart, torch.linalg.vector_norm(rows, dim=2, keepdim=True)], dim=2)


def _equal_heads(apart: Float[Tensor, " h h+1"]) -> int:
    """How many heads give out what one before them does, but for rounding; dead ones are not counted."""
    sizes = apart[:, -1:]
    near = (apart[:, :-1] <= _SAME * sizes) & (sizes > 0)
    return int(near.tril(-1).any(1).sum())


def _first_sample(call: AttentionCall) -> list[Tensor | None]:
    """Queries, keys and values of one sample, as far as they were seen."""
    first = [None if t is None else t[:1] for t in (call.query, call.key, call.value)]
    if call.query is None and call.differentiable is not None:  # scores that are written out
        query, key, _ = call.differentiable
        first[0] = None if query is None else in_heads(query.detach())[:1]
        first[1] = None if key is None else in_heads(key.detach())[:1].transpose(-1, -2)
    return first


_NAMES = ("queries", "keys", "values")


def _compare_projections(
    call: AttentionCall, like: Tensor, num_calls: int
) -> tuple[Float[Tensor, " calls n"], list[tuple[int, int]]]:
    """Mean squares of queries and keys of one sample, and for each pair of projections its distances.

    Of a pair: whether the first has an entry, its size, and its distance as it is and scaled by the root of
    the head's width, as some scale the queries.
    """
    first = [None if t is None else t.to(like.dtype) for t in _first_sample(call)]
    flat = [None if t is None else t.reshape(num_calls, -1) for t in first]
    shapes = [None if t is None else t.shape for t in first]
    zero = like.new_zeros(num_calls)
    squares = [zero if t is None else t.square().mean(1) for t in flat[:2]]
    scale = call.head_width**0.5 if call.head_width else 1.0
    pairs = []
    for a, b in ((0, 1), (1, 2), (0, 2)):
        one, other = flat[a], flat[b]
        if one is None or other is None or shapes[a] != shapes[b]:
            continue
        pairs.append((a, b))
        for each in (one, one - other, one * scale - other):
            squares.append(torch.linalg.vector_norm(each, dim=1))
    return torch.stack(squares, dim=1), pairs


def _read_alike(
    pairs: list[tuple[int, int]], numbers: list[float]
) -> tuple[float | None, str | None]:
    """Root mean square of the queries over that of the keys, and the pair that is the same tensor, if any."""
    queries, keys, *rest = numbers
    ratio = math.sqrt(queries) / math.sqrt(keys) if keys > 0 else None
    for i, (a, b) in enumerate(pairs):
        size, *apart = rest[3 * i : 3 * i + 3]
        if size > 0 and min(apart) <= _SAME * size:
            return ratio, f"{_NAMES[a]} and {_NAMES[b]}"
    return ratio, None
