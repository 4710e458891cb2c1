"""Whether padding is read, real tokens are not, and packed documents read one another."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.measure.dependence.eval_pass import EvalPass
from bathyscope.measure.dependence.padding import Padding
from bathyscope.measure.dependence.position_map import PositionMap, map_of_pass, output_positions

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
