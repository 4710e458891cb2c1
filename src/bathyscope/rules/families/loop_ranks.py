"""Ranks that train one model together: replicas that part, and batches that do not."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.rule import CausalStage, Rule, Thresholds, problem_if


def replicas_differ(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Parameters that differ between ranks though the loop averages gradients."""
    ranks = record.ranks
    if ranks.idle is not None:
        rank, passes, steps = ranks.idle
        yield REPLICAS_DIFFER.finding(
            Severity.PROBLEM,
            score=1.0,
            rank=rank,
            passes=passes,
            steps=steps,
            title=f"Rank {rank} has taken no step in {passes} backward passes, this one {steps}",
        )
        return
    if ranks.first_different is None or ranks.is_sharded:
        return
    is_wrapped = any(m.wrapper == "DistributedDataParallel" for m in record.models)
    averages = is_wrapped or ranks.reductions >= record.steps > 0
    is_part = len(ranks.different) < min(4, ranks.num_parameters) and ranks.equal_at_first
    if not (averages or ranks.equal_at_first):
        return  # trainings of their own, side by side
    when = (
        f"equal at the start, and different before step {ranks.first_different}"
        if ranks.equal_at_first
        else "different from the start"
    )
    yield REPLICAS_DIFFER.finding(
        problem_if(averages or is_part), score=1.0,
        step=ranks.first_different, ranks=ranks.size, parameters=", ".join(ranks.different),
        equal_at_the_start=ranks.equal_at_first,
        title=f"{ranks.different[0]} is {when} on another rank",
    )  # fmt: skip


REPLICAS_DIFFER = Rule(
    code="replicas-differ",
    stage=CausalStage.LOOP,
    cause="ranks",
    title="Replicas that differ between ranks",
    explanation="Averaged gradients fit one set of weights: each rank follows gradients of another "
    "network than its own, and what is saved is that of one rank alone.",
    source="checksums of entries of each parameter, by the step of the loop",
    advice="Start from one set of weights (DistributedDataParallel sends those of rank 0; by hand: "
    "dist.broadcast), and do the same with all gradients on every rank.",
    find_in_loop=replicas_differ,
)


def equal_ranks(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Ranks that are fed the same batches."""
    ranks = record.ranks
    if ranks.compared_batches >= 3 and ranks.equal_batches == ranks.compared_batches:
        yield EQUAL_RANKS.finding(
            Severity.WARNING, score=1.0,
            compared=ranks.compared_batches, equal=ranks.equal_batches, ranks=ranks.size,
        )  # fmt: skip


EQUAL_RANKS = Rule(
    code="equal-ranks",
    stage=CausalStage.LOOP,
    cause="ranks",
    title="Every rank is fed the same batches",
    explanation="The mean over equal gradients is the gradient of one rank: the others compute in vain.",
    source="checksums of the batches, by the step of the loop",
    advice="Give the loader a DistributedSampler, or seed each rank's order by its rank.",
    find_in_loop=equal_ranks,
)
