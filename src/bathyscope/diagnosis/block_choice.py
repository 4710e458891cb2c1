"""Which blocks are measured: those a user names, or a part of those found."""

from collections.abc import Iterable
from dataclasses import replace

from bathyscope.core.arguments import check_count, check_names
from bathyscope.core.blocks import Blocks


def wanted_blocks(blocks: str | Iterable[str] | Blocks | None) -> Blocks | tuple[str, ...] | None:
    """The blocks that a user names, or those found before.

    Raises:
        UsageError: they are neither, or none.
    """
    if blocks is None or isinstance(blocks, Blocks):
        return blocks
    return check_names("blocks", blocks, minimum=1)


def sample_blocks(blocks: Blocks, most: int | None) -> Blocks:
    """At most this many blocks, the first and the last among them, spread evenly.

    Raises:
        UsageError: fewer than two are asked for.
    """
    if most is None or len(blocks) <= check_count("most_blocks", most, minimum=2):
        return blocks
    last = len(blocks) - 1
    chosen = sorted({round(i * last / (most - 1)) for i in range(most)})
    note = (
        f"{len(chosen)} of {len(blocks)} blocks were measured; a fault between them is seen later."
    )
    kept = tuple(replace(blocks[i], index=at) for at, i in enumerate(chosen))
    result = " ".join(part for part in (blocks.note, note) if part)
    head = [b for b in blocks.around if b.part == "head"]
    renumbered = {b.label: replace(b, index=len(kept) + i) for i, b in enumerate(head)}
    around = tuple(renumbered.get(b.label, b) for b in blocks.around)
    return Blocks(kept, blocks.how, result, around)
