"""Values gathered block by block while a pass runs, and the frozen record they become."""

import math

import torch
from torch import Tensor

from bathyscope.core.blocks import Blocks
from bathyscope.core.records import Block, Measurement, Number


class Rows:
    """One row a block. A value that was never put, or is not a number, is None in the record."""

    def __init__(self, blocks: Blocks, columns: tuple[str, ...]) -> None:
        self.blocks = blocks
        self.values: dict[str, dict[int, Number]] = {column: {} for column in columns}
        self.notes: dict[str, None] = {blocks.note: None} if blocks.note else {}

    def put(self, block: Block, **values: Number) -> None:
        """Set values of one block; columns that no block has had before are added."""
        for column, value in values.items():
            if isinstance(value, float) and math.isnan(value):
                value = None
            self.values.setdefault(column, {})[block.index] = value

    def note(self, text: str) -> None:
        """Say something once, however many blocks it concerns."""
        self.notes[text] = None

    def measurement(self, name: str, **settings: object) -> Measurement:
        """The record of what was put."""
        return Measurement(
            name=name,
            blocks=tuple(self.blocks),
            columns={
                column: tuple(values.get(block.index) for block in self.blocks)
                for column, values in self.values.items()
            },
            settings=settings,
            notes=tuple(self.notes),
        )


def share_not_finite(tensor: Tensor) -> float:
    """Share of entries that are NaN or infinite."""
    # 0·x is 0 only where x is finite: a third of the time of isfinite(x).sum()
    return 1 - torch.count_nonzero(tensor * 0 == 0).item() / max(1, tensor.numel())
