"""Attention, measured head by head, and what it does to the stream, block by block."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, check_batch
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of, unwrap
from bathyscope.core.devices import on_a_copy_without_double
from bathyscope.core.errors import UsageError
from bathyscope.core.fetch import Readings
from bathyscope.core.hooks import Hooks, on_gradient
from bathyscope.core.nested import tensors_in
from bathyscope.core.probe import Observer, aside, probe
from bathyscope.core.records import Block, Measurement
from bathyscope.core.walks import named_modules
from bathyscope.measure.attention_calls import AttentionCall, AttentionCalls, in_heads
from bathyscope.measure.attention_scores import (
    QUERIES,
    SAMPLES,
    HeadReader,
    HeadStatistics,
)
from bathyscope.measure.branches import ResidualSums, Sum
from bathyscope.measure.functions import Together
from bathyscope.measure.gradients import quotient
from bathyscope.measure.logits import LogitScale, logit_scale, logits_in
from bathyscope.measure.positions import head_of, position_effect, tables_of
from bathyscope.measure.rows import Rows, axes_of, find_blocks, read_norm
from bathyscope.measure.tokens import Likeness, read_token_similarity

# A head that gives out, or gets back, less than this fraction of the strongest head's is dead.
_DEAD = 1e-6
_ONE_HOT_HEAD = 0.9
_NAMED_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)


@on_a_copy_without_double
def attention(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Iterable[str] | Blocks | None = None,
    samples: int = SAMPLES,
    queries: int = QUERIES,
) -> Measurement:
    """Entropy, logits and rank of the attention in every block, and the size of its branches.

    Every network is measured that calls `scaled_dot_product_attention` or `nn.MultiheadAttention`, or
    multiplies values by a softmax of scores. Fused kernels give no scores away: they are computed
    again for a sample of the queries.

    Columns, one value per block, over all heads unless a head is named:
        heads: how many there are.
        entropy, lowest_entropy: −Σ p ln p / ln(keys seen), mean over rows; the mean and the smallest
            head. 1 is uniform, 0 one-hot.
        largest_logit: largest |q·k·scale| among the keys that are seen.
        logit_std: deviation of a row's scores, mean over rows.
        uniform_rows, one_hot_rows: fractions of the rows that see two keys or more.
        one_hot_heads: fraction of heads nine tenths of whose rows are one-hot.
        masked_rows: fraction of rows that see no key at all, of the head with most.
        rank, full_rank: numerical rank of the sampled rows of the attention matrix, mean over
            heads, and what it could be.
        scale: factor on q·k, times √d; 1 for the usual 1/√d. None where it is not known.
        dead_heads: fraction of heads that give out nothing, or whose values receive no gradient
            while those of others do; `dead` names them.
        equal_heads: fraction of heads that give out what one before them does.
        tied: which of queries, keys and values are the same.
        query_over_key: root mean square of the queries over that of the keys.
        choice_gradient: gradient at queries or keys, the larger, over that at the values.
        attention_size, mlp_size: ‖branch‖/‖stream‖ of the sums x + branch(x) in the block.
        branch_rms: root mean square of the larger branch.
        attention_gradient_ratio, mlp_gradient_ratio: gradient's norm after over before each sum.
        post_norm: whether the stream resumes from the norm of the sum.
        token_similarity: mean cosine between two tokens of a sequence at the block's output.
        token_spread: ‖X − 1x̄ᵀ‖/‖X‖ of a sequence's tokens; 0 where all are alike.
        stream_growth: ‖output‖ over ‖input of the first block‖.
    Settings hold, where the targets are labels, the scale of the network's output: `output_std`,
    `log_z`, `log_z_std` and the `head` that makes it; `position_effect`, how much the output changes
    when tokens change places; the embedding `table`, its `table_rms`, and if the output `is_tied` to it.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.
        samples: of the batch, whose scores are computed again.
        queries: of each of them.

    Returns:
        The measurement `attention`.

    Raises:
        UsageError: no attention was found, or the batch, the loss or the model does not fit.

    Examples:
        >>> import torch.nn.functional as F
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        >>> batch = torch.randn(4, 5, 8), torch.randn(4, 5, 8)
        >>> attention(model, batch, loss=F.mse_loss)["heads"]
        (2, 2, 2)
    """
    result = find_blocks(model, batch, blocks)
    observer = AttentionObserver(model, result, samples=samples, queries=queries)
    probe(
        model, batch, loss=loss, blocks=result, observers=(observer,), modes=(observer.watching(),)
    )
    observer.look_at(batch)
    measured = observer.measurement()
    if measured is None:
        hidden = f" {observer.hidden_note()}" if observer.hidden else ""
        raise UsageError(
            f"No attention was found in {type(unwrap(model)).__name__}: nothing calls "
            "scaled_dot_product_attention or nn.MultiheadAttention, or multiplies values by a "
            f"softmax of scores.{hidden}"
        )
    return measured


@on_a_copy_without_double
def attention_heads(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Iterable[str] | Blocks | None = None,
    samples: int = SAMPLES,
    queries: int = QUERIES,
) -> dict[str, tuple[HeadStatistics, ...]]:
    """The statistics of every head, by the block's label, one entry a call of attention in it.

    Examples:
        >>> import torch.nn.functional as F
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        >>> batch = torch.randn(4, 5, 8), torch.randn(4, 5, 8)
        >>> heads = attention_heads(model, batch, loss=F.mse_loss)
        >>> heads["layers.0"][0].entropy.shape
        torch.Size([2])
    """
    result = find_blocks(model, batch, blocks)
    observer = AttentionObserver(model, result, samples=samples, queries=queries)
    probe(
        model, batch, loss=loss, blocks=result, observers=(observer,), modes=(observer.watching(),)
    )
    observer.reader.flush()
    labels = {block.index: block.label for block in result}
    return {
        labels[index]: tuple(h.statistics for h in heads) for index, heads in observer.heads.items()
    }


@dataclass(slots=True, eq=False)
class _Heads:
    """One call of attention: its statistics, and the gradients that come back to it."""

    scale: float | None
    statistics: HeadStatistics = field(init=False)
    query_gradient: float | None = None
    key_gradient: float | None = None
    value_gradients: Float[Tensor, " h"] | None = None


class AttentionObserver(Observer):
    """Reduces attention as it is computed; run the pass inside `watching()`."""

    def __init__(
        self,
        model: nn.Module | Members,
        blocks: Blocks,
        *,
        samples: int = SAMPLES,
        queries: int = QUERIES,
        readings: Readings | None = None,
    ) -> None:
        self.readings = readings or Readings()
        self.members = members_of(model)
        self.model = self.members.root
        self.blocks = blocks
        self.samples = samples
        self.queries = queries
        self.reader = HeadReader(self.readings, samples=samples, queries=queries)
        self.has_labels = True
        self.position_effect: float | None = None
        self.heads: dict[int, list[_Heads]] = {}
        self.sums: dict[int, dict[str, Sum]] = {}
        self.rows = Rows(blocks, ())
        self.hidden: dict[str, str] = {}
        self.logits: LogitScale | None = None
        self.inside: Block | None = None
        self.num_calls = 0
        self.strongest = (0.0, 0.0)
        self.since_sum = False
        self.has_begun = False
        self.first_norm = 0.0
        self.residual = ResidualSums(self._on_sum, self.readings)
        self.calls = AttentionCalls(self._on_call)

    @property
    def watches(self) -> tuple[ResidualSums, AttentionCalls]:
        """What sees the functions of a pass, for a mode that others share."""
        return self.residual, self.calls

    @contextmanager
    def watching(self) -> Iterator["AttentionObserver"]:
        """Within, every pass is watched, and what modules named attention hide is noted."""
        with self.hooked(), Together(*self.watches):
            yield self

    @contextmanager
    def hooked(self) -> Iterator["AttentionObserver"]:
        """As `watching`, without the functions."""
        with Hooks() as hooks:
            for name, module in named_modules(self.model).items():
                if _NAMED_ATTENTION.search(type(module).__name__):
                    self._look_for_calls(hooks, name, module)
            hooks.after_forward(self.model, self._on_model_output)
            yield self

    def look_at(self, batch: Batch) -> None:
        """What the batch shows: whether outputs are logits, and whether positions matter."""
        inputs, targets = check_batch(self.model, batch)
        self.has_labels = targets is None or any(
            not t.is_floating_point() for t in tensors_in(targets)
        )
        if self.heads:
            self.position_effect = position_effect(self.model, inputs)

    def on_input(self, block: Block, x: Tensor) -> None:
        """A block begins: its sums and calls belong to it."""
        self.inside = block
        self.since_sum = False
        self.residual.enter(x)
        if not self.has_begun:
            self.has_begun = True
            read_norm(self.readings, x, lambda norm, _: setattr(self, "first_norm", norm))

    def on_output(self, block: Block, x: Tensor) -> None:
        """A block ends: compare its tokens."""
        self.residual.leave(x)
        self.inside = None
        if block.index not in self.heads:
            return
        if x.ndim == 3:
            samples = axes_of(self.members, block, ndim=3).samples

            def put(alike: Likeness) -> None:
                self.rows.put(block, token_similarity=alike.cosine, token_spread=alike.spread)

            read_token_similarity(self.readings, x.transpose(0, 1) if samples == 1 else x, put)

        def put_growth(norm: float, _: float) -> None:
            if self.first_norm:
                self.rows.put(block, stream_growth=norm / self.first_norm)

        read_norm(self.readings, x, put_growth)

    def measurement(self) -> Measurement | None:
        """The record, once the pass is over; None where no attention was seen."""
        self.reader.flush()
        if self.hidden:
            self.rows.note(self.hidden_note())
        if not self.heads:
            return None
        every = [call for calls in self.heads.values() for call in calls]
        self.strongest = (
            _strongest([call.statistics.output for call in every]),
            _strongest([call.value_gradients for call in every]),
        )
        for block in self.blocks:
            if block.index in self.heads:
                self._put_heads(block, self.heads[block.index])
                self._put_sums(block, self.sums.get(block.index, {}))
        scale = self.logits if self.has_labels else None
        return self.rows.measurement(
            "attention",
            samples=self.samples,
            queries=self.queries,
            output_std=scale.std if scale else None,
            log_z=scale.log_z if scale else None,
            log_z_std=scale.log_z_std if scale else None,
            num_classes=scale.num_classes if scale else None,
            head=head_of(self.model, scale.num_classes) if scale else None,
            position_effect=self.position_effect,
            **tables_of(self.model),
        )

    def hidden_note(self) -> str:
        """Which modules are called attention and hide it."""
        names = list(self.hidden)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return (
            f"The attention inside {names[0]} ({self.hidden[names[0]]}){more} was not seen: it runs "
            "in a kernel of its own; everything else was measured."
        )

    def _look_for_calls(self, hooks: Hooks, name: str, module: nn.Module) -> None:
        before: list[int] = []

        def began(module: nn.Module, args: object) -> None:
            before.append(self.num_calls)

        def ended(module: nn.Module, args: object, output: object) -> None:
            if before and before.pop() == self.num_calls:
                self.hidden[name or "the model"] = type(module).__name__

        hooks.before_forward(module, began)
        hooks.after_forward(module, ended)

    def _on_model_output(self, module: nn.Module, args: object, output: object) -> None:
        logits = logits_in(output) if self.heads else None
        if logits is not None and logits.is_floating_point() and logits.shape[-1] > 1:
            self.logits = logit_scale(logits)

    def _on_call(self, call: AttentionCall) -> None:
        self.num_calls += 1
        self.since_sum = True
        if self.inside is None:
            return
        scale = None
        if call.scale is not None and call.head_width is not None:
            scale = call.scale * math.sqrt(call.head_width)
        heads = _Heads(scale)
        self.reader.add(call, lambda statistics: setattr(heads, "statistics", statistics))
        self.heads.setdefault(self.inside.index, []).append(heads)
        if call.differentiable is not None:
            query, key, value = call.differentiable
            if query is not None and key is not None:
                self._keep_norm(query, heads, "query_gradient")
                self._keep_norm(key, heads, "key_gradient")
            if value is not None:
                on_gradient(value, lambda g: self._keep_head_norms(heads, g))

    def _keep_norm(self, tensor: Tensor, heads: _Heads, name: str) -> None:
        def hook(gradient: Tensor) -> None:
            with aside():
                read_norm(self.readings, gradient, lambda norm, _: setattr(heads, name, norm))

        on_gradient(tensor, hook)

    def _keep_head_norms(self, heads: _Heads, gradient: Tensor) -> None:
        with aside():
            norms = _head_norms(gradient.detach())
            self.readings.add(lambda read: setattr(heads, "value_gradients", read), norms)

    def _on_sum(self, result: Sum) -> None:
        if self.inside is not None:
            kind = "attention" if self.since_sum else "mlp"
            self.sums.setdefault(self.inside.index, {})[kind] = result
            self.since_sum = False

    def _put_heads(self, block: Block, calls: list[_Heads]) -> None:
        every = [call.statistics for call in calls]
        one_hot = torch.cat([s.one_hot_rows for s in every])
        entropy = torch.cat([s.entropy for s in every])
        dead = [
            name
            for i, call in enumerate(calls)
            for name in _dead_heads(call, i, len(calls), self.strongest)
        ]
        self.rows.put(
            block,
            heads=len(entropy),
            entropy=float(entropy.nanmean()),
            lowest_entropy=_least(entropy),
            largest_logit=max(float(s.largest_logit.max()) for s in every),
            logit_std=float(torch.cat([s.logit_std for s in every]).nanmean()),
            uniform_rows=float(torch.cat([s.uniform_rows for s in every]).nanmean()),
            one_hot_rows=float(one_hot.nanmean()),
            one_hot_heads=float((one_hot >= _ONE_HOT_HEAD).to(entropy.dtype).mean()),
            masked_rows=max(float(s.masked_rows.max()) for s in every),
            rank=float(torch.cat([s.rank for s in every]).mean()),
            full_rank=min(s.full_rank for s in every),
            scale=max((c.scale for c in calls if c.scale is not None), default=None),
            dead_heads=len(dead) / len(entropy),
            dead=", ".join(dead) or None,
            equal_heads=sum(s.equal_heads for s in every) / len(entropy),
            tied=next((s.tied for s in every if s.tied is not None), None),
            query_over_key=every[0].query_over_key,
            choice_gradient=_choice_gradient(calls[0]),
        )

    def _put_sums(self, block: Block, sums: dict[str, Sum]) -> None:
        for kind, result in sums.items():
            after, before = result.gradient_out, result.gradient_in
            ratio = None if after is None or before is None else quotient(after, before)
            self.rows.put(block, **{f"{kind}_size": result.size, f"{kind}_gradient_ratio": ratio})
        if sums:
            self.rows.put(
                block,
                branch_rms=max(s.branch_rms for s in sums.values()),
                post_norm=all(s.is_normalized for s in sums.values()),
            )


def _head_norms(gradient: Tensor) -> Tensor:
    """Norm of the gradient at each head's values."""
    squares = torch.linalg.vector_norm(in_heads(gradient.detach().float()), dim=-1).square()
    result: Tensor = squares.sum((0, 2)).sqrt()
    return result


def _strongest(sizes: list[Tensor | None]) -> float:
    return max((float(s.max()) for s in sizes if s is not None), default=0.0)


def _dead_heads(
    call: _Heads, index: int, num_calls: int, strongest: tuple[float, float]
) -> list[str]:
    """Names of the heads that give out nothing, or receive nothing while others of the network do.

    Where no head of the network receives anything the output layers start at zero, which is meant so.
    """
    dead: set[int] = set()
    given, received = call.statistics.output, call.value_gradients
    for sizes, largest in ((given, strongest[0]), (received, strongest[1])):
        if sizes is None or (sizes is received and not largest):
            continue
        own = float(sizes.max()) or largest
        dead |= set(torch.nonzero(sizes <= _DEAD * own).flatten().tolist())
    prefix = f"{index}." if num_calls > 1 else ""
    return [f"{prefix}{head}" for head in sorted(dead)]


def _choice_gradient(call: _Heads) -> float | None:
    """Gradient at the queries or keys over that at the values."""
    back = [g for g in (call.query_gradient, call.key_gradient) if g is not None]
    if not back or call.value_gradients is None:
        return None
    return quotient(max(back), float(torch.linalg.vector_norm(call.value_gradients)))


def _least(values: Tensor) -> float:
    finite = values[~values.isnan()]
    return float(finite.min()) if finite.numel() else math.nan
