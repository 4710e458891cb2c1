"""The map of positions as a small matrix: which positions of the input some of the output read."""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.report.record import Report

_SENTENCES = {
    "causal": "Each position reads itself and those before it.",
    "anticausal": "Each position reads itself and those after it.",
    "bidirectional": "Each position reads those before and after it.",
    "banded": "Each position reads those near it.",
    "diagonal": "Each position reads itself alone.",
    "none": "No position is read.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionMatrix:
    """What the page draws: squares of one unit, columns are positions of the input.

    Attributes:
        caption: in one sentence.
        rows: positions of the output, from top to bottom.
        columns: how many positions of the input are shown.
        read: path of the squares that are read.
        own: path of each row's own position, where it is not read.
    """

    caption: str
    rows: Sequence[int]
    columns: int
    read: str
    own: str


def position_matrix(report: Report) -> PositionMatrix | None:
    """The matrix of a report; None where the output has no positions, or only one was asked.

    Examples:
        >>> from bathyscope.core.records import Measurement
        >>> from bathyscope.report import Judgment
        >>> settings = {"pattern": "causal", "map_rows": (2, 0), "map": ("###.", "#...")}
        >>> measured = Measurement(name="dependence", blocks=(), columns={}, settings=settings)
        >>> clean = Judgment(level="clean", sentence="")
        >>> report = Report(title="m", verdict=clean, blocks=(), measurements=(measured,))
        >>> matrix = position_matrix(report)
        >>> matrix.rows, matrix.columns, matrix.read
        ((0, 2), 4, 'M0 0h1v1h-1zM0 1h3v1h-3z')
    """
    measured = next((m for m in report.measurements if m.name == "dependence"), None)
    settings = {} if measured is None else measured.settings
    rows, lines = settings.get("map_rows"), settings.get("map")
    if not isinstance(rows, (tuple, list)) or not isinstance(lines, (tuple, list)) or len(rows) < 2:
        return None
    pairs = sorted(zip(rows, lines, strict=False))
    pattern = settings.get("pattern")
    own = "".join(
        f"M{row} {number}h1v1h-1z"
        for number, (row, line) in enumerate(pairs)
        if row < len(line) and line[row] != "#"
    )
    return PositionMatrix(
        caption=_SENTENCES.get(str(pattern), "Which positions read which."),
        rows=tuple(row for row, _ in pairs),
        columns=max(len(line) for _, line in pairs),
        read="".join(_runs(line, number) for number, (_, line) in enumerate(pairs)),
        own=own,
    )


def _runs(line: str, number: int) -> str:
    """One rectangle for each run of positions that are read."""
    path, begin = "", None
    for column, mark in enumerate(f"{line}."):
        if mark == "#" and begin is None:
            begin = column
        elif mark != "#" and begin is not None:
            path += f"M{begin} {number}h{column - begin}v1h-{column - begin}z"
            begin = None
    return path
