"""Whether attention heads are cut out of the features, or by mistake across positions."""

from dataclasses import dataclass

import torch

from bathyscope.measure.dependence.eval_pass import EvalPass


@dataclass(frozen=True, slots=True)
class HeadSplit:
    """What a query of the first attention reads of the input.

    Attributes:
        heads: how many.
        query: the position of the query that was asked.
        reads: the position that it reads most.
        reads_itself: whether it reads its own position at all.
        crosses_positions: whether it reads what a `view(samples, heads, positions, -1)` of
            (samples, positions, heads × features) puts there, and not its own.
    """

    heads: int
    query: int
    reads: int
    reads_itself: bool
    crosses_positions: bool


def head_split(ran: EvalPass) -> HeadSplit | None:
    """What the last query of the first head reads; None without attention over the input's positions.

    With L positions and H heads, `view` where `transpose` is needed gives head h at position l the features
    of position ⌊(hL + l)/H⌋. The query of head 0 at the last position then reads ⌊(L − 1)/H⌋, and itself not
    at all.

    Raises:
        NotMeasurable: an operation has no derivative.
    """
    source = ran.main
    if ran.queries is None or source is None or len(source.position_axes) != 1:
        return None
    queries = ran.queries.tensor
    samples, heads, length, _ = queries.shape
    if samples != ran.samples or length != source.positions or heads < 2 or length < 2 * heads:
        return None
    last = length - 1
    seed = torch.zeros_like(queries)
    if ran.queries.are_scores:
        seed[:, 0, last, last] = 1.0  # of query and key at one position
    else:
        seed[:, 0, last] = 1.0 + torch.arange(queries.shape[-1]).to(seed) / queries.shape[-1]
    (gradient,) = torch.autograd.grad(
        queries, [source.tensor], seed, retain_graph=True, allow_unused=True
    )
    if gradient is None:
        return None
    strength = source.strengths(gradient)[0]
    most = int(strength.argmax())
    itself = float(strength[last]) > 0
    return HeadSplit(
        heads=heads,
        query=last,
        reads=most,
        reads_itself=itself,
        crosses_positions=not itself and most == last // heads,
    )
