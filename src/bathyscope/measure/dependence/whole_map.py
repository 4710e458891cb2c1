"""A map of positions that answers more than it was asked: of a causal model one backward pass shows all."""

from bathyscope.measure.dependence.eval_pass import EvalPass, NotMeasurable
from bathyscope.measure.dependence.input_roles import UNREAD, UnreadInput
from bathyscope.measure.dependence.position_map import PositionMap, map_of_pass, output_positions

_FEWEST = 6
"""Positions of a sequence whose thirds are apart from its ends."""


def map_to_the_end(ran: EvalPass) -> PositionMap | None:
    """The rows at one third, at the end and at two thirds, each of another sample.

    Returns:
        None where the output has not one row for each position of a single input, or nothing leads back.
    """
    source = ran.main
    if source is None or len(ran.sources) > 1 or ran.samples < 3 or source.positions < _FEWEST:
        return None
    axes = output_positions(ran, source)
    if axes is None or len(axes) > 1:
        return None
    n = source.positions
    try:
        return map_of_pass(ran, rows=(n // 3, n - 1, 2 * n // 3))
    except NotMeasurable:
        return None


def shows_all(result: PositionMap) -> bool:
    """Whether a map to the end shows by itself that samples are apart and that everything is read.

    The last row reads every position. The rows of the samples before and behind read nothing that comes
    after them: had the last row read those samples, it would have left something there.
    """
    first, last, second = result.strength
    is_read = bool((last > UNREAD * last.max()).all())
    return is_read and not any(
        bool(row[at + 1 :].any()) for row, at in zip((first, second), result.rows[::2], strict=True)
    )


def all_is_read(ran: EvalPass) -> tuple[UnreadInput, ...]:
    """What a map that shows all says of the input: nothing of it is left unread."""
    return tuple(
        UnreadInput(one.name, one.kind, 0.0, (), one.positions, fades=False, samples=1)
        for one in ran.sources
    )
