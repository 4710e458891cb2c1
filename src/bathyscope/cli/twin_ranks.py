"""The first step of several ranks beside the same one on one rank, with all of their samples in one batch.

Each rank writes its weights and its samples into the store through which the ranks have met, as `run` does
with its checksums; the first rank reads them when they are there. Nobody waits.
"""

import io
from typing import Any

import torch
from torch import Tensor

from bathyscope.core.errors import in_a_line
from bathyscope.core.hooks import Hooks
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.nested import tensors_in
from bathyscope.diagnosis.twin_ranks import twin_of_ranks
from bathyscope.recorder.first_step import FirstStepRecorder
from bathyscope.recorder.ledger_ranks import rank_and_size, rank_store

_APART = "no step was taken by several ranks that know one another"
_PART = 1 << 22  # bytes: a store takes no message that is much longer


class RankExchange:
    """Hands what the first step of every rank is made of to the first one.

    Args:
        first: records the first step of this rank.
    """

    def __init__(self, first: FirstStepRecorder) -> None:
        self._first = first
        self._failed = ""
        self._hooks = Hooks()
        self._gradients: dict[str, Tensor] | None = None
        self._others: dict[int, dict[str, Any]] = {}
        self._size = 1

    def __enter__(self) -> "RankExchange":
        self._hooks.before_step(None, self._before_step)
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.remove()

    def _before_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        try:
            self._exchange()
        except Exception as error:  # a store that cannot be reached; the script continues
            self._failed = in_a_line(error)
            self._hooks.remove()

    def _exchange(self) -> None:
        rank, self._size = rank_and_size()
        step = self._first.step
        if self._size < 2 or step is None or self._first.module is None:
            return
        store = rank_store()
        if self._gradients is None:
            named = self._first.module.named_parameters()
            self._gradients = {n: p.grad.detach().clone() for n, p in named if p.grad is not None}
            if rank:
                weights = {name: p.detach() for name, p in step.model.named_parameters()}
                _write(store, rank, {"weights": weights, "batch": list(tensors_in(step.batch))})
        if rank == 0:
            for other in range(1, self._size):
                if other not in self._others and store.check([_key(other, "parts")]):
                    self._others[other] = _read(store, other)

    def compare(self, record: LoopRecord) -> str:
        """What one rank with all the samples would have done otherwise, in a few sentences."""
        step, given = self._first.step, self._gradients
        missing = [r for r in range(1, self._size) if r not in self._others]
        why = self._first.why_not
        if not why and given is None:
            why = self._failed or _APART
        elif not why and missing:
            late = f"rank {missing[0]} had written nothing when the last step was watched"
            why = self._failed or late
        if step is None or given is None or why:
            return f"Twin (ranks): not compared, because {why}."
        row = record.rows[0] if record.rows else None
        if row is not None and row.micro_batches > 1:
            return "Twin (ranks): not compared, because several micro-batches make a step."
        scale = (row and row.clip_factor) or 1.0
        try:
            given = {name: gradient / scale for name, gradient in given.items()}
            others = [self._others[rank] for rank in sorted(self._others)]
            result = twin_of_ranks(step.model, step.batch, step.loss, given, others)
        except Exception as error:  # of a model, or of batches that cannot be joined
            return f"Twin (ranks): not compared: {in_a_line(error)}."
        text = str(result).replace("Both do the same over 1 step", "One rank does the same")
        later = record.ranks.first_different
        if result.is_same and later is not None:
            text += (
                f"\nReplicas differ from step {later} on, in {', '.join(record.ranks.different)}."
            )
        return f"Twin (ranks): {text}"


def _write(store: Any, rank: int, payload: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    data = buffer.getvalue()
    starts = range(0, len(data), _PART)
    for number, start in enumerate(starts):
        store.set(_key(rank, str(number)), data[start : start + _PART])
    store.set(_key(rank, "parts"), str(len(starts)))


def _read(store: Any, rank: int) -> dict[str, Any]:
    parts = int(store.get(_key(rank, "parts")))
    data = b"".join(store.get(_key(rank, str(number))) for number in range(parts))
    result: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return result


def _key(rank: int, part: str) -> str:
    return f"bathyscope/twin/{rank}/{part}"
