"""What the hidden representations have lost: digits, differences between samples, rank."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.diagnosis.evidence import Evidence, cause_of_squashing, decades, finding
from bathyscope.diagnosis.thresholds import Thresholds


def precision_loss(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block whose deviation is within rounding of its mean: ε |mean| / deviation."""
    means = evidence.column("activations", "mean")
    deviations = evidence.column("activations", "std")
    lost = [
        evidence.epsilon * abs(m) / s if m is not None and s else 0.0
        for m, s in zip(means, deviations, strict=True)
    ]
    out = [i for i, share in enumerate(lost) if share > thresholds["precision"]]
    if out:
        yield finding(
            "precision-loss",
            Severity.PROBLEM,
            evidence.labels(out),
            score=decades(lost[out[0]] / thresholds["precision"]),
            share_lost_to_rounding=lost[out[0]],
            mean=means[out[0]],
            deviation=deviations[out[0]],
            num_blocks=len(out),
        )


def collapsed_representation(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block from which all samples point in one direction.

    In a last layer without an activation it is but a warning: there the bias sets the direction, and
    the differences that the layers before still hold come out as soon as it has learnt.
    """
    cosines = evidence.column("representations", "mean_cosine")
    distances = evidence.column("representations", "collapse")
    out = [
        i
        for i, d in enumerate(distances)
        if d is not None and d < thresholds["collapse"] and _has_room(evidence, i)
    ]
    if out:
        at_the_end = out[0] == len(evidence.blocks) - 1 and _is_bare_layer(evidence.blocks[-1])
        yield finding(
            "collapsed-representation",
            Severity.WARNING if at_the_end else Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(distances[out[0]] or 0.0, 1e-16)),
            cause=cause_of_squashing(evidence, out),
            mean_cosine=cosines[out[0]],
            mean_cosine_before=cosines[out[0] - 1] if out[0] else None,
            num_blocks=len(out),
        )


# In short formats (bfloat16) rounding hides singular values that are there: such a rank proves nothing.
_COARSE = 1e-3


def singular_representation(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose features or channels span few of the directions that reached them.

    The reference is the largest rank since the narrowest place so far, so that a block which widens
    its input is not blamed for directions that never were there, nor for those that a bottleneck
    before it had no room for. One block alone that misses little is but a warning.
    """
    for mode in ("features", "channels"):
        ranks = evidence.column("representations", f"rank_{mode}")
        full = evidence.column("representations", f"full_rank_{mode}")
        cutoffs = evidence.column("representations", f"cutoff_{mode}")
        peak: float = _units(evidence.blocks[0], mode)
        out, reference = [], []
        for i, (rank, most) in enumerate(zip(ranks, full, strict=True)):
            if rank is None or most is None or (cutoffs[i] or 0.0) > _COARSE:
                continue
            possible = min(peak, most)
            if rank <= thresholds["singular_rank"] * possible and possible > 1:
                out.append(i)
                reference.append(possible)
            peak = max(min(peak, most), rank)
        if out:
            rank = ranks[out[0]] or 0.0
            slight = len(out) == 1 and rank > thresholds["singular_rank_alone"] * reference[0]
            yield finding(
                "singular-representation",
                Severity.WARNING if slight else Severity.PROBLEM,
                evidence.labels(out),
                score=decades(max(rank, 1e-3) / reference[0]),
                rank=rank,
                possible_rank=reference[0],
                full_rank=full[out[0]],
                mode=mode,
                num_blocks=len(out),
            )


def narrow_width(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose output, all of what the next one gets, is fewer numbers than it takes to name a class."""
    classes = _num_classes(evidence)
    if classes < 3:
        return
    bits = math.log2(classes)
    needed, grave = (bits * thresholds[name] for name in ("narrow_width", "narrow_width_grave"))
    widths = [math.prod(block.out_shape[1:]) for block in evidence.blocks]
    handed_on = [
        math.prod(after.in_shape[1:]) == width
        for width, after in zip(widths, evidence.blocks[1:], strict=False)
    ]
    out = [i for i, whole in enumerate(handed_on) if whole and 0 < widths[i] < needed]
    if out:
        out.sort(key=lambda i: widths[i])
        yield finding(
            "narrow-width",
            Severity.PROBLEM if widths[out[0]] < grave else Severity.WARNING,
            evidence.labels(out),
            score=decades(needed / widths[out[0]]),
            width=widths[out[0]],
            classes=classes,
            bits_of_a_class=bits,
            num_blocks=len(out),
        )


def _num_classes(evidence: Evidence) -> int:
    """How many classes one label a sample tells apart; 0 where labels are none."""
    output, labels = evidence.about("output"), evidence.about("labels")
    if not output.holds("index_targets") or output.word("loss_asks") != "one class":
        return 0
    shape = evidence.blocks[0].in_shape if evidence.blocks else ()
    if labels.number("number") != (shape[0] if shape else None):
        return int(labels.number("different") or 0)  # labels of tokens or pixels
    return int(output.number("num_outputs") or 0)


def _has_room(evidence: Evidence, index: int) -> bool:
    """Whether four or more numbers reached the block: of fewer, samples lie near one line anyway."""
    shapes = [block.in_shape for block in evidence.blocks[: index + 1]]
    return all(math.prod(shape[1:]) >= 4 for shape in shapes if len(shape) > 1)


def _units(block: Block, mode: str) -> int:
    """How many features or channels enter a block."""
    shape = block.in_shape
    return (shape[1] if mode == "channels" else shape[-1]) if len(shape) > 1 else 0


def _is_bare_layer(block: Block) -> bool:
    """One layer with nothing after it, as the last of a network is."""
    return block.end == block.name and block.kind in ("Linear", "Conv1d", "Conv2d", "Conv3d")
