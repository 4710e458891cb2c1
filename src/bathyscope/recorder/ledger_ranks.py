"""Ranks that train one model: are their replicas equal, and are their batches not?

Checksums go into the store through which the ranks have met, and are read only where they are there already.
No rank ever waits for another one, so that it does not matter whether all of them are watched.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from bathyscope.core.errors import in_a_line
from bathyscope.core.loop_record import LoopRecord
from bathyscope.recorder.sketch import can_be_read, checksum

_MOST_COMPARISONS, _MOST_NAMES = 40, 4
_JUDGED_PASSES = 8
"""Backward passes from which on a rank without a step is one that takes none."""
_OTHERS = 3
"""Other ranks whose checksums are read; the neighbors show what all of them would."""


def is_compared(step: int) -> bool:
    """Whether ranks are compared before a step: at 0, 1, 2, 4, 8, … and every 256th."""
    return step & (step - 1) == 0 or step % 256 == 0


class RankLedger:
    """Keeps the record of ranks."""

    def __init__(
        self, record: LoopRecord, models: Callable[[], Iterable[tuple[str, Tensor]]]
    ) -> None:
        self.record = record
        self.wants_batch = False
        """Whether the batch of the step under way is to be remembered."""
        self._models = models
        self._batch = 0
        self._own: dict[int, dict[str, Any]] = {}
        self._waiting: list[tuple[int, int]] = []
        self._steps: dict[int, int] = {}
        self._is_over = False

    def batch_seen(self, batch: Tensor) -> None:
        """A trained model is called on a batch."""
        if self.wants_batch and can_be_read(batch) and rank_and_size()[1] > 1:
            self._batch = checksum(batch)

    def reduced(self) -> None:
        """The script has called all_reduce."""
        self.record.ranks.reductions += 1

    def before_backward(self) -> None:
        """A backward pass begins: publish how many steps there were, as a rank may take none."""
        passes = self.record.backward_passes
        if self._is_over or passes < _JUDGED_PASSES or passes & (passes - 1):
            return
        try:
            rank, size = rank_and_size()
            if size > 1:
                self._steps[passes] = self.record.steps
                rank_store().set(_key(passes, rank, "steps"), str(self.record.steps))
                self._read_steps()
        except Exception:  # the store cannot be reached: the next step says so
            self._steps.clear()

    def _read_steps(self) -> None:
        """Has a neighbor taken no step, where this rank has?"""
        rank, size = rank_and_size()
        for passes, own in self._steps.items():
            for other in {(rank + i) % size for i in range(1, min(size, _OTHERS + 1))}:
                key = _key(passes, other, "steps")
                is_there = own >= passes // 2 and rank_store().check([key])
                if is_there and int(rank_store().get(key)) == 0:
                    self.record.ranks.idle = (other, passes, own)

    def before_step(self) -> None:
        """A step begins: publish checksums, and compare with those of others that are there."""
        try:
            self._exchange(self.record.steps)
        except Exception as error:  # a store that cannot be reached, or one that keeps nothing
            self._is_over, self.wants_batch = True, False
            self.record.notes.append(f"Replicas were not compared: {in_a_line(error)}.")

    def _exchange(self, step: int) -> None:
        if self._is_over or not (is_compared(step) or self._waiting):
            self.wants_batch = not self._is_over and is_compared(step + 1)
            return
        rank, size = rank_and_size()
        if size > 1 and is_compared(step) and len(self._own) < _MOST_COMPARISONS:
            self.record.ranks.size = size
            own = {"batch": self._batch, "weights": self._checksums()}
            self._own[step] = own
            rank_store().set(_key(step, rank), json.dumps(own))
            near = [(rank + i) % size for i in range(1, min(size, _OTHERS + 1))]
            self._waiting += [(step, other) for other in near]
        self._read()
        self.wants_batch = is_compared(step + 1)

    def _checksums(self) -> dict[str, int]:
        result: dict[str, int] = {}
        for name, parameter in self._models():
            if hasattr(parameter, "to_local"):
                self.record.ranks.is_sharded = True
            elif can_be_read(parameter) and parameter.numel():
                result[name] = checksum(parameter)
        return result

    def finish(self) -> None:
        """Read once more, where the ranks are still together."""
        self._is_over = True
        try:
            if rank_and_size()[1] > 1:
                self._read()
                self._read_steps()
        except Exception:  # the store has gone with the process that held it
            self._waiting.clear()

    def _read(self) -> None:
        """Compare with what other ranks have published; nothing is waited for."""
        left = []
        for step, other in self._waiting:
            key = _key(step, other)
            if rank_store().check([key]):
                self._compare(step, json.loads(rank_store().get(key)))
            else:
                left.append((step, other))
        self._waiting = left[-64:]

    def _compare(self, step: int, other: dict[str, Any]) -> None:
        use, own = self.record.ranks, self._own[step]
        names = own["weights"].keys() & other["weights"].keys()
        if not names:
            return
        use.compared += 1
        use.num_parameters = len(names)
        different = [
            n for n in own["weights"] if n in names and own["weights"][n] != other["weights"][n]
        ]
        if step == 0:
            use.equal_at_first = not different
        if different and (use.first_different is None or step < use.first_different):
            use.first_different = step
            use.different = tuple(different[:_MOST_NAMES])
        if own["batch"] and other["batch"]:
            use.compared_batches += 1
            use.equal_batches += own["batch"] == other["batch"]


def parameters_by_name(models: Iterable[nn.Module]) -> Iterable[tuple[str, Tensor]]:
    """The parameters of some models, with names that are the same on every rank."""
    for number, model in enumerate(models):
        for name, parameter in model.named_parameters():
            yield f"{number}.{name}" if number else name, parameter


def rank_and_size() -> tuple[int, int]:
    """Rank and number of ranks; one of one where there is no group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def rank_store() -> Any:
    """That through which the ranks have met."""
    import torch.distributed as dist

    return dist.distributed_c10d._get_default_store()


def _key(step: int, rank: int, what: str = "replicas") -> str:
    return f"bathyscope/{what}/{step}/{rank}"
