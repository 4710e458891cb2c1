"""Attention as it is called: fused, in `nn.MultiheadAttention`, or as a softmax over scores.

Everything is caught at the level of torch's functions, because half of all networks write their
attention out by hand. A function that works inside a compiled kernel of its own is not seen.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from bathyscope.core.probe import aside
from bathyscope.measure.functions import FunctionWatch

_SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax})
_PRODUCTS = frozenset(
    {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum}
)
_TIMES = frozenset(
    {torch.mul, Tensor.mul, Tensor.mul_, torch.multiply, Tensor.multiply, Tensor.multiply_}
    | {Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__}
)
_OVER = frozenset(
    {torch.div, Tensor.div, Tensor.div_, torch.divide, Tensor.divide, Tensor.divide_}
    | {torch.true_divide, Tensor.__truediv__, Tensor.__itruediv__}
)
# what leaves probabilities the same matrix, but for dropped or moved entries
_PASSED_ON = frozenset(
    {F.dropout, torch.dropout, Tensor.to, Tensor.type_as, Tensor.type, Tensor.float, Tensor.half}
    | {Tensor.bfloat16, Tensor.reshape, Tensor.view, torch.reshape, torch.nan_to_num}
    | {Tensor.contiguous}
)
_ADDED = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.add_, Tensor.__iadd__})
_FILLED = frozenset({torch.masked_fill, Tensor.masked_fill, Tensor.masked_fill_})
WATCHED = (
    frozenset({F.scaled_dot_product_attention, F.multi_head_attention_forward, torch.where})
    | _SOFTMAX | _PRODUCTS | _TIMES | _OVER | _PASSED_ON | _ADDED | _FILLED
)  # fmt: skip
"""Functions that `AttentionCalls` wants to see."""


Oddity = Literal[
    "softmax over the queries",
    "softmax of a softmax",
    "scores without a softmax",
    "softmax that is masked afterwards",
    "heads merged across positions",
    "heads split across positions",
]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionCall:
    """One call of attention, in heads.

    Attributes:
        query, key: (samples, heads, tokens, features); None where only the scores were seen.
        scores: queries against keys, before the softmax and with the mask; None where queries and
            keys are there.
        mask: added to the scores, or a bool mask of what may be seen, that broadcasts to them.
        causal: whether a query sees only the keys up to its own position.
        scale: factor on the scalar products; None where it is not known.
        value: as `key`; None where only the scores were seen.
        differentiable: the query, key and value of the graph, for their gradients; each None where it was
            not seen. A key of written-out scores is transposed.
    """

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    scores: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    head_width: int | None = None
    differentiable: tuple[Tensor | None, Tensor | None, Tensor | None] | None = None


class AttentionCalls(FunctionWatch):
    """Within, reports every call of attention: `reported(call)`, once it is done."""

    def __init__(self, result: Callable[[AttentionCall], None]) -> None:
        super().__init__()
        self.result = result
        self.factors: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.products: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.operands: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.masks: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.pending: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.crossed: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.outputs: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.split: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.masked: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.oddities: Counter[Oddity] = Counter()

    def after(
        self,
        func: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: object,
        kept: object,
    ) -> None:
        """Report the call where it is attention."""
        if func in WATCHED:
            with aside():
                self.look(func, args, kwargs, output)

    def look(
        self,
        func: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: object,
    ) -> None:
        """Report a call that is attention; follow what may become one."""
        if func is F.scaled_dot_product_attention:
            self.result(_fused(*args, **kwargs))
            if isinstance(output, Tensor):
                self.outputs[output] = True
            self._note_split(args[0] if args else kwargs.get("query"))
        elif func is F.multi_head_attention_forward:
            self.result(_multi_head(*args, **kwargs))
        elif isinstance(output, Tensor) and args:
            self._follow(func, args, kwargs, output)

    def _follow(
        self,
        func: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Tensor,
    ) -> None:
        """Follow scores from the product of queries and keys to that of probabilities and values."""
        if func in _SOFTMAX:
            self._follow_softmax(args, kwargs, output)
        elif func in _PRODUCTS:
            self._follow_product(func, args, output)
        elif func in _TIMES or func in _OVER:
            if func in _TIMES and (weights := self._masked(args)) is not None:
                self.pending[output], self.masked[output] = weights, True
            else:
                self._follow_scaling(args, output, is_division=func in _OVER)
        elif func in _PASSED_ON:
            self._pass_on(args[0], output)
        elif func in _ADDED and len(args) > 1 and args[0] in self.products:
            self._pass_on(args[0], output)
            if isinstance(args[1], Tensor):
                self.masks[output] = args[1].detach()
        elif func in _FILLED and args[0] in self.products:
            self._pass_on(args[0], output)
            self.masks[output] = ~(kwargs["mask"] if "mask" in kwargs else args[1])
        elif func is torch.where and len(args) == 3 and args[1] in self.products:
            self._pass_on(args[1], output)
            self.masks[output] = args[0]

    def _follow_scaling(
        self, args: tuple[object, ...], output: Tensor, *, is_division: bool
    ) -> None:
        """Follow what is multiplied or divided by one number; what is done in place has a new factor too."""
        tensor = next((a for a in args if isinstance(a, Tensor) and a.ndim > 0), None)
        factor = next((float(a) for a in args if a is not tensor and _is_number(a)), 0.0)
        if tensor is None or factor == 0:
            if tensor is output:
                for known in (self.products, self.operands, self.factors):
                    known.pop(output, None)
            return
        times = 1 / factor if is_division else factor
        self.factors[output] = times * self.factors.get(tensor, 1.0)
        for known in (self.products, self.operands):
            if (value := known.get(tensor)) is not None:
                known[output] = value

    def _masked(self, args: tuple[object, ...]) -> AttentionCall | None:
        """The call whose weights are multiplied by a mask of zeros and ones that takes away some of them."""
        weights = next((a for a in args if isinstance(a, Tensor) and a in self.pending), None)
        mask = next((a for a in args if isinstance(a, Tensor) and a is not weights), None)
        if weights is None or mask is None or mask.requires_grad:
            return None
        hidden = mask == 0
        if not bool(hidden.any()) or not bool((hidden | (mask == 1)).all()):
            return None
        # a query that sees nothing may be set to zero; one that sees something should share out 1
        taken = (weights.detach() * hidden).sum(-1)
        cut = (taken > 0.01) & (taken < 0.99)
        return self.pending[weights] if bool(cut.any()) else None

    def _pass_on(self, source: object, output: Tensor) -> None:
        if isinstance(source, Tensor) and source is not output:
            for known in (
                *(self.pending, self.products, self.operands, self.factors, self.masks),
                *(self.crossed, self.outputs, self.split, self.masked),
            ):
                if (value := known.get(source)) is not None:
                    known[output] = value
            if (mask := self.masks.get(source)) is not None and output.ndim != source.ndim:
                whole = mask.expand(source.shape) if mask.ndim <= source.ndim else mask
                self.masks[output] = (
                    whole.reshape(output.shape) if whole.numel() == output.numel() else mask
                )
            if _splits_across_positions(source, output):
                self.split[output] = True
            if self.outputs.get(source) and _merges_across_positions(source, output):
                self.oddities["heads merged across positions"] += 1

    def _note_split(self, query: object) -> None:
        if isinstance(query, Tensor) and self.split.get(query):
            self.oddities["heads split across positions"] += 1

    def _follow_softmax(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], output: Tensor
    ) -> None:
        scores = args[0]
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(scores, Tensor) or scores.ndim < 3:
            return
        if scores in self.pending:
            self.oddities["softmax of a softmax"] += 1
        if axis not in (-1, scores.ndim - 1):
            if scores in self.operands and scores.shape[-1] == scores.shape[-2]:
                self.crossed[output] = True
            return
        width = self.products.get(scores)
        scale = self.factors.get(scores, 1.0) if width is not None else None
        self.pending[output] = AttentionCall(
            scores=in_heads(scores.detach()),
            mask=self.masks.get(scores),
            scale=scale,
            head_width=width,
            differentiable=self.operands.get(scores),
        )

    def _follow_product(
        self, func: Callable[..., object], args: tuple[object, ...], output: Tensor
    ) -> None:
        operands = [a for a in args if isinstance(a, Tensor)]
        if len(operands) != 2 or operands[0].ndim < 3:
            return
        call = self.pending.pop(operands[0], None)
        if call is not None:
            if self.masked.get(operands[0]):
                self.oddities["softmax that is masked afterwards"] += 1
            self.result(_with_value(call, operands[1], is_plain=func is not torch.einsum))
            self.outputs[output] = True
            return
        if self.crossed.get(operands[0]):
            self.oddities["softmax over the queries"] += 1
        elif operands[0] in self.operands and operands[0].shape[-1] == operands[0].shape[-2]:
            self.oddities["scores without a softmax"] += 1
        self.products[output] = operands[0].shape[-1]
        if operands[1].ndim > 2:
            self._note_split(operands[0])
            self.operands[output] = (operands[0], operands[1], None)
        self.factors[output] = math.prod(self.factors.get(a, 1.0) for a in operands)


def _is_number(x: object) -> TypeGuard[float | Tensor]:
    return isinstance(x, (int, float)) or (isinstance(x, Tensor) and x.ndim == 0)


def _splits_across_positions(source: Tensor, output: Tensor) -> bool:
    """Whether (samples, tokens, heads × features) becomes (samples, heads, tokens, …) by a view alone."""
    if source.ndim != 3 or output.ndim != 4 or output.shape[1] in (1, source.shape[1]):
        return False
    samples, tokens, width = source.shape
    return output.shape[0] == samples and output.shape[2] == tokens > 1 and width > output.shape[3]


def _merges_across_positions(source: Tensor, output: Tensor) -> bool:
    """Whether (samples, heads, tokens, features) becomes (samples, tokens, …) without a transposition."""
    if source.ndim != 4 or output.ndim != 3 or min(source.shape[1:3]) < 2:
        return False
    samples, heads, tokens, features = source.shape
    return tuple(output.shape) == (samples, tokens, heads * features)


def _with_value(call: AttentionCall, value: Tensor, *, is_plain: bool) -> AttentionCall:
    """The call with the values that its probabilities multiply; an einsum may have them in any order."""
    query, key, _ = call.differentiable or (None, None, None)
    if not is_plain or value.ndim < 3:
        return replace(call, differentiable=(query, key, None))
    return replace(call, value=in_heads(value.detach()), differentiable=(query, key, value))


def in_heads(x: Tensor) -> Tensor:
    """(…, tokens, features) as (samples, heads, tokens, features); heads may lie in the samples."""
    if x.ndim == 3:
        return x.unsqueeze(1)
    return x if x.ndim == 4 else x.flatten(0, x.ndim - 4)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall:
    """A call of `F.scaled_dot_product_attention`, whichever kernel runs it."""
    width = query.shape[-1]
    used = width**-0.5 if scale is None else scale
    mine = tuple(in_heads(t.detach()) for t in (query, key, value))
    if enable_gqa and mine[1].shape[1] != mine[0].shape[1]:
        groups = mine[0].shape[1] // mine[1].shape[1]
        mine = (mine[0], *(t.repeat_interleave(groups, dim=1) for t in mine[1:]))
    mask = attn_mask.detach() if attn_mask is not None else None
    return AttentionCall(
        query=mine[0],
        key=mine[1],
        value=mine[2],
        mask=mask,
        causal=is_causal,
        scale=used,
        head_width=width,
        differentiable=(query, key, value) if query.ndim == 4 else None,
    )


def _multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> AttentionCall:
    """A call of `nn.MultiheadAttention`: tokens come first, and a bool mask says what is hidden."""
    if use_separate_proj_weight:
        weights = [w for w in (q_proj_weight, k_proj_weight, v_proj_weight) if w is not None]
    else:
        assert in_proj_weight is not None
        weights = list(in_proj_weight.chunk(3))
    biases = in_proj_bias.chunk(3) if in_proj_bias is not None else (None, None, None)
    rows = []
    for x, weight, bias in zip((query, key, value), weights, biases, strict=True):
        mapped = F.linear(x.unsqueeze(1) if x.ndim == 2 else x, weight, bias)
        rows.append(mapped)
    for extra, index in ((bias_k, 1), (bias_v, 2)):
        if extra is not None:
            rows[index] = torch.cat([rows[index], extra.expand(1, rows[index].shape[1], -1)])
    heads = [t.unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3) for t in rows]
    if add_zero_attn:
        heads[1:] = [F.pad(t, (0, 0, 0, 1)) for t in heads[1:]]
    width = heads[0].shape[-1]
    return AttentionCall(
        query=heads[0],
        key=heads[1],
        value=heads[2],
        mask=_joined_mask(attn_mask, key_padding_mask, heads[0], heads[1].shape[2]),
        scale=width**-0.5,
        head_width=width,
    )


def _joined_mask(
    hidden: Tensor | None, padding: Tensor | None, query: Tensor, num_keys: int
) -> Tensor | None:
    """Both masks of `nn.MultiheadAttention` as one that is added to the scores."""
    samples, heads = query.shape[:2]
    parts: list[Tensor] = []
    if hidden is not None:
        parts.append(_added(hidden, query).reshape(-1, *hidden.shape[-2:]))
        if len(parts[0]) > 1:
            parts[0] = parts[0].reshape(samples, heads, *hidden.shape[-2:])
    if padding is not None:
        parts.append(_added(padding, query).reshape(samples, 1, 1, -1))
    if not parts:
        return None
    # keys that bias_k and add_zero_attn append are never hidden
    parts = [F.pad(part, (0, num_keys - part.shape[-1])) for part in parts]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _added(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.detach()
    zeros = torch.zeros(mask.shape, dtype=like.dtype, device=mask.device)
    return zeros.masked_fill(mask, -math.inf)
