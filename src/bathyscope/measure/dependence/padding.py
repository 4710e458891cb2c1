"""Where padding and packed documents are, and whether they are read."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.fetch import to_host
from bathyscope.core.walks import named_modules
from bathyscope.measure.dependence.eval_pass import EvalPass
from bathyscope.measure.dependence.input_roles import (
    _TRUE_IS_PADDING,
    _TRUE_IS_REAL,
    PADDING_INSIDE,
    NamedInput,
    named_inputs,
    padding_in_text,
    runs_at_ends,
)
from bathyscope.measure.dependence.position_map import PositionMap, map_of_pass, output_positions
from bathyscope.measure.effective_targets import EffectiveTargets


@dataclass(frozen=True, slots=True, eq=False)
class Padding:
    """Where padding stands, and how that is known.

    Attributes:
        where: (samples, positions), true where there is padding.
        known_by: the name of the mask or lengths, `padding_idx`, or `tokens` where equal tokens at the
            ends of sequences of different lengths suggest it.
        is_given: whether the model is given it: a mask or lengths among its inputs.
        side: `right`, `left` or `both`.
    """

    where: Tensor
    known_by: str
    is_given: bool
    side: str

    @property
    def fraction(self) -> float:
        """Of all positions."""
        return float(self.where.float().mean())


def padding_token(model: nn.Module) -> int | None:
    """The `padding_idx` of the model's embeddings, where they have one and agree on it."""
    tables = (m for m in named_modules(model).values() if isinstance(m, nn.Embedding))
    known = {m.padding_idx for m in tables if m.padding_idx is not None}
    return known.pop() if len(known) == 1 else None


def padding_of(inputs: tuple[NamedInput, ...], *, padding_idx: int | None = None) -> Padding | None:
    """The padding of a batch, from a mask, lengths, the embedding's `padding_idx` or the tokens; or None.

    Examples:
        >>> from bathyscope.measure.dependence.input_roles import named_inputs
        >>> tokens = torch.tensor([[5, 3, 0, 0], [4, 5, 6, 0], [2, 2, 3, 7]])
        >>> padding_of(named_inputs(tokens)).where.sum(1)
        tensor([2, 1, 0])
    """
    main = next((one.tensor for one in inputs if one.role in ("tokens", "values")), None)
    if main is None or main.ndim < 2 or main.shape[1] < 2:
        return None
    for one in inputs:
        if one.role == "mask" and one.tensor.shape == main.shape[:2]:
            where = _from_mask(one)
            return _padding(where, one.name, given=True) if where is not None else None
    for one in inputs:
        if one.role == "lengths" and main.ndim >= 2:
            steps = torch.arange(main.shape[1], device=main.device)
            where = steps[None] >= one.tensor.to(main.device)[:, None]
            return _padding(where, one.name, given=True)
    if main.is_floating_point():
        if main.ndim != 3:
            return None
        return _padding(runs_at_ends((main == 0).all(-1)), "zeros", given=False)
    if main.ndim != 2:
        return None
    if padding_idx is not None:
        if padding_in_text(main, padding_idx) > PADDING_INSIDE:
            return None
        return _padding(runs_at_ends(main == padding_idx), "padding_idx", given=False)
    return _from_tokens(main)


def _padding(where: Tensor, known_by: str, *, given: bool) -> Padding | None:
    if not bool(where.any()) or bool(where.all()):
        return None
    right, left = bool(where[:, -1].any()), bool(where[:, 0].any())
    side = "both" if right and left else "right" if right else "left"
    return Padding(where, known_by, given, side)


def _from_mask(mask: NamedInput) -> Tensor | None:
    """True at padding. A mask without a known name has padding at the end that is not always the same."""
    key, values = mask.name.rpartition(".")[2].lower(), mask.tensor != 0
    if key in _TRUE_IS_PADDING:
        return values
    if key in _TRUE_IS_REAL:
        return ~values
    for real_end in (0, -1):  # right padding leaves the first column alone, left padding the last
        column = values[:, real_end]
        if bool((column == column[0]).all()):
            return values != column[0]
    return None


def _from_tokens(tokens: Tensor) -> Padding | None:
    """One token that ends or begins most sequences, in runs of different lengths, and stands nowhere else."""
    device = tokens.device
    (tokens,) = to_host([tokens])
    for end in (-1, 0):
        last = tokens[:, end]
        token = int(last.mode().values)
        runs = runs_at_ends(tokens == token)
        lengths = runs.sum(1)
        most = int((lengths > 0).sum()) * 2 >= len(tokens)
        several = most and int(lengths.max()) > 1 and len(lengths.unique()) > 1
        if several and not bool(((tokens == token) & ~runs).any()):
            return _padding(runs.to(device), "tokens", given=False)
    return None


def end_is_padding(model: nn.Module, inputs: object, asked: EffectiveTargets) -> str | None:
    """How padding hides the end of texts from a loss on next tokens; None where it does not.

    The token that pads also ends the texts, by the configuration or because it stands at real positions, and
    the loss asks for it nowhere: whoever leaves padding out of the labels leaves the end out too.

    Args:
        model: with or without a `config`.
        inputs: of a batch.
        asked: what the loss asks for there.
    """
    known = named_inputs(inputs)
    tokens = next((one.tensor for one in known if one.role == "tokens"), None)
    if asked.offset != 1 or asked.asked is None or tokens is None or tokens.ndim != 2:
        return None
    config = getattr(model, "config", None)
    pad, end = (getattr(config, f"{name}_token_id", None) for name in ("pad", "eos"))
    padding = padding_of(known, padding_idx=pad if isinstance(pad, int) else None)
    if padding is None or asked.asked.numel() != tokens.numel():
        return None
    ids = tokens[padding.where].unique()
    if len(ids) != 1 or bool((asked.asked == int(ids)).any()):
        return None
    if bool(((tokens == ids) & ~padding.where).any()):
        return "it stands at real positions"
    return "the configuration says so" if pad is not None and pad == end == int(ids) else None


def padding_asked(inputs: object, asked: EffectiveTargets) -> float | None:
    """Fraction of what a loss asks for, position by position, that stands at padding; None without any.

    Args:
        inputs: of a batch.
        asked: what the loss asks for there.
    """
    padding = padding_of(named_inputs(inputs))
    if padding is None or asked.asked is None or asked.asked.numel() != padding.where.numel():
        return None
    real = (asked.asked >= 0).reshape(padding.where.shape)
    total = int(real.sum())
    return int((real & padding.where.to(real.device)).sum()) / total if total else None


def documents_of(inputs: tuple[NamedInput, ...]) -> Tensor | None:
    """Numbers of packed documents (samples, positions), from document ids or positions that begin again.

    Examples:
        >>> from bathyscope.measure.dependence.input_roles import named_inputs
        >>> inputs = {"input_ids": torch.ones(1, 5).long(), "position_ids": torch.tensor([[0, 1, 2, 0, 1]])}
        >>> documents_of(named_inputs(inputs))
        tensor([[0, 0, 0, 1, 1]])
    """
    for one in inputs:
        if one.role == "documents" and one.tensor.ndim == 2:
            return one.tensor if int(one.tensor.unique().numel()) > 1 else None
    for one in inputs:
        if one.role == "positions" and one.tensor.ndim == 2:
            restarts = torch.zeros_like(one.tensor)
            restarts[:, 1:] = (one.tensor[:, 1:] <= one.tensor[:, :-1]).long()
            # positions of left padding are all 0 or 1: a document has two positions at least
            grows = one.tensor[:, 1:] == one.tensor[:, :-1] + 1
            if bool(restarts.any()) and bool(grows.float().mean() > 0.5):
                return restarts.cumsum(1)
    return None


PADDING_READ = 1e-6
"""Of the largest gradient at a real token. A masked position has exactly 0."""


@dataclass(frozen=True, slots=True)
class PaddingRead:
    """What the outputs at real positions, or of whole sequences, read of the padding.

    Attributes:
        fraction: of the batch that is padding.
        known_by: a mask, lengths, `padding_idx`, or the tokens.
        is_given: whether the model is given a mask or lengths.
        side: where it stands: right, left or both.
        read: largest gradient at padding over the largest at a real token.
        gradient_fraction: of the gradient's norm that lies at padding.
        real_unread: fraction of real tokens without a gradient.
        by_sequence: whether the model gives one output for a sequence.
        is_recurrent: whether it has recurrent layers.
    """

    fraction: float
    known_by: str
    is_given: bool
    side: str
    read: float
    gradient_fraction: float
    real_unread: float
    by_sequence: bool
    is_recurrent: bool

    @property
    def is_read(self) -> bool:
        """Whether padding changes outputs that it should not."""
        return self.read > PADDING_READ

    @property
    def behind_padding(self) -> bool:
        """Whether the last state of a recurrent layer is taken after right padding."""
        return self.is_read and self.by_sequence and self.is_recurrent and self.side != "left"


def padding_read(
    model: nn.Module,
    ran: EvalPass,
    gradients: list[Tensor | None],
    padding: Padding,
    *,
    where: Tensor,
    asked: Tensor,
) -> PaddingRead | None:
    """What gradients from the real outputs of the asked samples say of the padding; None without any there.

    Args:
        model: to see whether it is recurrent.
        ran: the pass.
        gradients: from outputs at real positions, where the output has positions.
        padding: of the whole batch.
        where: (samples, positions) of the pass, true at padding.
        asked: (samples,), true for those whose outputs were asked.
    """
    source = ran.main
    if source is None or source.positions != where.shape[1]:
        return None
    strength = source.strengths(gradients[0]).cpu()[asked]
    at = where.cpu()[asked]
    if not bool(at.any()) or bool(at.all()):
        return None
    real, padded = strength[~at], strength[at]
    largest = float(real.max())
    total = float(strength.square().sum())
    silent = real <= PADDING_READ * max(largest, float(padded.max()))
    return PaddingRead(
        fraction=padding.fraction,
        known_by=padding.known_by,
        is_given=padding.is_given,
        side=padding.side,
        read=float(padded.max()) / largest if largest else float("inf" if padded.any() else 0),
        gradient_fraction=(float(padded.square().sum()) / total) ** 0.5 if total else 0.0,
        real_unread=float(silent.float().mean()),
        by_sequence=output_positions(ran, source) is None,
        is_recurrent=any(isinstance(m, nn.RNNBase) for m in model.modules()),
    )


def documents_cross(ran: EvalPass, documents: Tensor) -> float | None:
    """Fraction of the reading of a later document that goes to other documents of its sequence.

    One position of the last document of every sequence is asked. None where no sequence of the pass holds
    two documents, or the output has no positions.

    Args:
        ran: the pass.
        documents: (samples, positions), the number of each position's document.

    Raises:
        NotMeasurable: an operation has no derivative.
    """
    rows, samples = [], []
    for sample, numbers in enumerate(documents.cpu()):
        last = (numbers == numbers[-1]).nonzero().flatten()
        if len(numbers.unique()) > 1:
            rows.append(int(last[len(last) // 2]))
            samples.append(sample)
    if not rows:
        return None
    result: PositionMap = map_of_pass(ran, rows=tuple(rows), at=tuple(samples))
    if not len(result.rows):
        return None
    crossing = []
    for i, (row, sample) in enumerate(zip(rows, samples, strict=True)):
        other = documents[sample].cpu() != documents[sample, row].cpu()
        strength = result.strength[i]
        total = float(strength.norm())
        crossing.append(float(torch.where(other, strength, 0.0).norm()) / total if total else 0.0)
    return max(crossing)
