"""What the hidden representations have lost: differences between samples, rank."""

import math
from collections.abc import Iterator

from bathyscope.core.records import Block, Finding, Severity
from bathyscope.rules.evidence import Evidence, cause_of_squashing, decades
from bathyscope.rules.families.gradients import starts_at_zero
from bathyscope.rules.rule import MEASURED, CausalStage, Rule, Threshold, Thresholds, Transition

# In short formats (bfloat16) rounding hides singular values that are there: such a rank proves nothing.
_COARSE = 1e-3


def collapsed_representation(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """The first block from which all samples point in one direction.

    In a last layer without an activation it is but a warning: there the bias sets the direction, and
    the differences that the layers before still hold come out as soon as it has learned.
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
        yield COLLAPSED_REPRESENTATION.finding(
            Severity.WARNING if at_the_end else Severity.PROBLEM,
            evidence.labels(out),
            score=decades(max(distances[out[0]] or 0.0, 1e-16)),
            cause=cause_of_squashing(evidence, out),
            mean_cosine=cosines[out[0]],
            mean_cosine_before=cosines[out[0] - 1] if out[0] else None,
            num_blocks=len(out),
        )


COLLAPSED_REPRESENTATION = Rule(
    code="collapsed-representation",
    stage=CausalStage.REPRESENTATIONS,
    cause="architecture",
    title="Collapsed representation: all samples look alike",
    explanation="From this block on the samples point in one direction; later layers cannot distinguish "
    "them, and their gradients are those of one sample.",
    source="singularity, theorem 2 and remark 1",
    advice="An identity shortcut with scaled branches, or a normalization, before this block.",
    reads=("representations.mean_cosine", "representations.collapse"),
    thresholds={
        "collapse": Threshold(
            0.0001, "1 − mean cosine similarity between samples", "singularity, theorem 2"
        )
    },
    find=collapsed_representation,
    # a block that gives all samples their mean mixes them too, and is named here
    effects=("mixed-samples",),
    downstream=(
        *("precision-loss", "dead-units", "batchnorm-masks", "uniform-attention"),
        *("token-collapse", "singular-representation", "not-norm-preserving", "constant-output"),
        # of a contraction from block to block both come: what begins first is the cause
        *("constant-classes", "vanishing-gradient"),
    ),
    upstream=("not-norm-preserving", "exploding-gradient", "small-update"),
    compares_samples=True,
    event=Transition(
        title="the representation collapsed: all samples look alike",
        advice="Lower the learning rate; put shortcuts or a normalization before the named block.",
        column="variety",
        below=1e-4,
        before=1e-2,
        unless=("dead-units",),
    ),
)


def _room_behind_stem(evidence: Evidence, mode: str) -> float:
    """Directions that can reach the first block: no more than the stem has inputs.

    Patches of 4 × 4 × 3 numbers fill at most 48 of ConvNeXt's 96 channels. A linear map has as many inputs as
    weights to an output, so that this bounds them from above.
    """
    units = _units(evidence.blocks[0], mode)
    weights = sum(b.num_parameters for b in evidence.everywhere.blocks if b.part == "stem")
    return min(units, max(1, weights // units)) if weights and units else units


def singular_representation(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks whose features or channels span few of the directions that reached them.

    The reference is the largest rank since the narrowest place so far, so that a block which widens
    its input is not blamed for directions that never were there, nor for those that a bottleneck
    before it had no room for. One block alone that misses little is but a warning.
    """
    for mode in ("features", "channels"):
        ranks = evidence.column("representations", f"rank_{mode}")
        full = evidence.column("representations", f"full_rank_{mode}")
        tolerances = evidence.column("representations", f"tolerance_{mode}")
        peak: float = _room_behind_stem(evidence, mode)
        out, reference = [], []
        for i, (rank, most) in enumerate(zip(ranks, full, strict=True)):
            if rank is None or most is None or (tolerances[i] or 0.0) > _COARSE:
                continue
            if i == len(ranks) - 1 and starts_at_zero(evidence, i):
                continue  # a last layer that starts at zero has no rank before its first step
            # beside a wider branch, what this one reads has room for its own directions only
            possible = min(peak, most, _units(evidence.blocks[i], mode) or most)
            if rank <= thresholds["singular_rank"] * possible and possible > 1:
                out.append(i)
                reference.append(possible)
            peak = max(min(peak, most), rank)
        if out:
            rank = ranks[out[0]] or 0.0
            slight = len(out) == 1 and rank > thresholds["singular_rank_alone"] * reference[0]
            yield SINGULAR_REPRESENTATION.finding(
                Severity.WARNING if slight else Severity.PROBLEM,
                evidence.labels(out),
                score=decades(max(rank, 1e-3) / reference[0]),
                rank=rank,
                possible_rank=reference[0],
                full_rank=full[out[0]],
                mode=mode,
                num_blocks=len(out),
            )


SINGULAR_REPRESENTATION = Rule(
    code="singular-representation",
    stage=CausalStage.REPRESENTATIONS,
    cause="architecture",
    title="A representation of low rank",
    explanation="The features span few directions: what lay in the others cannot be recovered by any later "
    "layer, and weight updates inherit the low rank.",
    source="singularity, remarks 1 and 4",
    advice="An identity shortcut around the block, or a wider bottleneck.",
    reads=(
        "weights.norm",
        "parameter_gradients.norm",
        *(
            f"representations.{name}_{mode}"
            for name in ("rank", "full_rank", "tolerance")
            for mode in ("features", "channels")
        ),
    ),
    thresholds={
        "singular_rank": Threshold(
            0.5, "fraction of the full rank of a representation, by units", "singularity, remark 1"
        ),
        "singular_rank_alone": Threshold(
            0.4, "the same, below which one such block alone is a problem", MEASURED
        ),
    },
    find=singular_representation,
    downstream=("batchnorm-masks", "collapsed-representation"),
    upstream=("not-norm-preserving",),
    compares_samples=True,
)


def _is_bare_layer(block: Block) -> bool:
    """One layer with nothing after it, as the last of a network is."""
    return block.end == block.name and block.kind in ("Linear", "Conv1d", "Conv2d", "Conv3d")


def _has_room(evidence: Evidence, index: int) -> bool:
    """Whether four or more numbers reached the block: of fewer, samples lie near one line anyway."""
    shapes = [block.in_shape for block in evidence.blocks[: index + 1]]
    return all(math.prod(shape[1:]) >= 4 for shape in shapes if len(shape) > 1)


def _units(block: Block, mode: str) -> int:
    """How many features or channels enter a block."""
    shape = block.in_shape
    return (shape[1] if mode == "channels" else shape[-1]) if len(shape) > 1 else 0
