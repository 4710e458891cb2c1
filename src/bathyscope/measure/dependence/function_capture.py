"""What a pass makes of its tokens: their embeddings, the first queries, the inputs of batch norms.

Embeddings stand for tokens, which are whole numbers and have no gradient. Torch's functions are watched,
so that a table that is indexed by hand counts as an embedding as much as `nn.Embedding` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bathyscope.core.probe import aside
from bathyscope.measure.attention_calls import WATCHED, AttentionCalls, Oddity
from bathyscope.measure.dependence.components import FOLLOWED, ComponentWatch
from bathyscope.measure.dependence.input_roles import NamedInput

_TABLE_FIRST = (torch.embedding, Tensor.__getitem__)
_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
_DROPOUT = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout)
_SEEN = frozenset({F.embedding, F.batch_norm, *_TABLE_FIRST, *_SOFTMAX, *_DROPOUT})
_SEEN |= FOLLOWED | WATCHED
_MOST_NORMS = 4
_MOSTLY = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What an embedding gave for the tokens of an input, and which of its positions these are."""

    name: str
    tensor: Tensor
    arrangement: Literal["as given", "transposed", "flat"]
    columns: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The first queries (samples, heads, positions, features), or scores (…, positions, positions)."""

    tensor: Tensor
    are_scores: bool


class FunctionCapture(TorchFunctionMode):
    """Within, a pass leaves the embeddings of its tokens here, its first queries, and norms' inputs."""

    def __init__(
        self, model: nn.Module, tokens: Sequence[NamedInput], labels: Sequence[NamedInput] = ()
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.labels = labels
        self.components = ComponentWatch(model)
        self.attention: AttentionCalls | None = None
        self.merged_tokens = 0.0
        self.embedded: list[Embedded] = []
        self.leaves: list[Tensor] = []
        self.queries: Queries | None = None
        self.norm_inputs: list[Tensor] = []
        self.dropout = 0.0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function, and keep its output or input where it is one of those."""
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func not in _SEEN:
            return output
        self._keep_dropout(func, args, kwargs)
        with aside():
            if func in FOLLOWED:
                self.components.look(func, args, kwargs, output)
            if func in WATCHED:
                self.attention = self.attention or AttentionCalls(lambda call: None)
                self.attention.look(func, args, kwargs, output)
        if func is Tensor.__getitem__ and isinstance(args[1], slice) and not args[1].start:
            rows = torch.arange(len(output), device=output.device)
            self.components.look_up(args[0], rows, None)
        if func is F.embedding or func in _TABLE_FIRST:
            return self._keep_embedded(func, args, kwargs, output)
        if func is F.scaled_dot_product_attention and args:
            self._keep_queries(args[0], are_scores=False)
        elif func in _SOFTMAX and args:
            self._keep_queries(args[0], are_scores=True)
        elif func is F.batch_norm and args:
            self._keep_norm_input(args[0])
        return output

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        """Of attention that is written out."""
        return () if self.attention is None else tuple(self.attention.oddities)

    def _keep_embedded(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        by_name = kwargs.get("indices" if func is torch.embedding else "input")
        location = 1 if func in _TABLE_FIRST else 0
        index = args[location] if len(args) > location else by_name
        if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
            return output
        if not isinstance(output, Tensor) or output.ndim != index.ndim + 1:
            return output
        table = args[1 - location] if len(args) > 1 - location else kwargs.get("weight")
        if isinstance(table, Tensor):
            padding = args[2] if len(args) > 2 else kwargs.get("padding_idx")
            known = isinstance(padding, int) and padding >= 0
            self.components.look_up(table, index, padding if known else None)
        fit = next((m for one in self.tokens if (m := _match(one, index)) is not None), None)
        if fit is None:
            fit = self._match_merged(index) or self._match_shifted(index)
        if fit is None or not output.is_floating_point():
            return output
        name, arrangement, columns = fit
        # Its own tensor, which the model may overwrite in place, also where the table is frozen.
        seen = output
        if not output.requires_grad:
            self.leaves.append(output.detach().requires_grad_())
            seen = self.leaves[-1].clone()
        self.embedded.append(Embedded(name, seen, arrangement, columns))
        return seen

    def _match_merged(
        self, index: Tensor
    ) -> tuple[str, Literal["as given", "transposed", "flat"], tuple[int, ...] | None] | None:
        """Tokens of which some were taken for others, as by clamp(), before they were looked up."""
        for one in self.tokens:
            tokens = one.tensor
            if index.shape != tokens.shape or float((index == tokens).double().mean()) < _MOSTLY:
                continue
            pairs = torch.stack([tokens.flatten(), index.flatten()]).unique(dim=1)
            total = len(tokens.unique())
            kept = len(index.unique()) / total
            if pairs.shape[1] == total and kept > _MOSTLY:  # each token always becomes the same one
                self.merged_tokens = 1 - kept
                return one.name, "as given", None
        return None

    def _match_shifted(
        self, index: Tensor
    ) -> tuple[str, Literal["as given", "transposed", "flat"], tuple[int, ...] | None] | None:
        """Labels that were moved to the right by one place, as a decoder is given them."""
        for one in self.labels:
            labels = one.tensor
            if index.shape != labels.shape or index.shape[1] < 2:
                continue
            known = labels[:, :-1] >= 0
            if bool(known.any()) and bool((index[:, 1:] == labels[:, :-1])[known].all()):
                return f"{one.name}, shifted", "as given", None
        return None

    def _keep_dropout(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The largest probability of a dropout that is on."""
        if func is F.scaled_dot_product_attention:
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        elif func in _DROPOUT:
            is_on = (
                args[2] if len(args) > 2 else kwargs.get("training", func is not F.alpha_dropout)
            )
            p = (args[1] if len(args) > 1 else kwargs.get("p", 0.5)) if is_on else 0.0
        else:
            return
        self.dropout = max(self.dropout, float(p))

    def _keep_norm_input(self, tensor: Any) -> None:
        if isinstance(tensor, Tensor) and tensor.ndim == 3 and len(self.norm_inputs) < _MOST_NORMS:
            self.norm_inputs.append(tensor.detach())

    def _keep_queries(self, tensor: Any, *, are_scores: bool) -> None:
        if self.queries is not None or not isinstance(tensor, Tensor) or tensor.ndim != 4:
            return
        square = tensor.shape[-1] == tensor.shape[-2]
        if tensor.requires_grad and (square or not are_scores):
            self.queries = Queries(tensor, are_scores)


def _match(
    known: NamedInput, index: Tensor
) -> tuple[str, Literal["as given", "transposed", "flat"], tuple[int, ...] | None] | None:
    """How the index of a look-up is made from an input's tokens: all, transposed, flat, or some columns."""
    tokens = known.tensor
    if index.numel() == tokens.numel():
        if index.shape == tokens.shape and torch.equal(index, tokens):
            return known.name, "as given", None
        if tokens.ndim == 2 and index.shape == tokens.shape[::-1] and torch.equal(index, tokens.mT):
            return known.name, "transposed", None
        if index.ndim == 1 and torch.equal(index, tokens.flatten()):
            return known.name, "flat", None
        return None
    if index.ndim != 2 or tokens.ndim != 2 or len(index) != len(tokens):
        return None
    columns = _columns(index, tokens) if 1 < index.shape[1] < tokens.shape[1] else None
    return None if columns is None else (known.name, "as given", columns)


def _columns(index: Tensor, tokens: Tensor) -> tuple[int, ...] | None:
    """The columns of the tokens, in order, that are those of an index; None where one is not among them."""
    for first in (0, tokens.shape[1] - index.shape[1]):
        if torch.equal(index, tokens[:, first : first + index.shape[1]]):
            return tuple(range(first, first + index.shape[1]))
    result: list[int] = []
    for column in index.unbind(1):
        first = result[-1] + 1 if result else 0
        same = (tokens[:, first:] == column[:, None]).all(0).nonzero()
        if not len(same):
            return None
        result.append(first + int(same[0]))
    return tuple(result)
