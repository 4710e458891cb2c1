"""Checkpoints that a loop continues from, and seeds that it sets again."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from bathyscope.core.loop_record import LoopRecord, ResumeUse

_DEPTH = 2


class ResumeLedger:
    """Keeps the record of what was read from a checkpoint, and of seeds."""

    def __init__(self, record: LoopRecord) -> None:
        self.record = record
        self._seeds: dict[object, int] = {}

    def file_loaded(self, contents: object, line: str | None) -> None:
        """`torch.load` has returned: what does the file hold?"""
        holds = tuple(dict.fromkeys(_kinds(contents)))
        if holds:
            self.record.resume = ResumeUse(line, holds, after=self.record.steps)

    def weights_loaded(self) -> None:
        """A state dict was loaded into a module."""
        if self.record.resume.holds and self.record.steps == self.record.resume.after:
            self.record.resume.weights_loaded = True

    def used(self, what: str) -> None:
        """An optimizer, a schedule or the random state was restored."""
        if what not in self.record.resume.used:
            self.record.resume.used.append(what)

    def seeded(self, seed: object, line: str | None) -> None:
        """The same seed again, while the loop runs?"""
        if self.record.steps == 0 or not isinstance(seed, int) or len(self._seeds) > 256:
            return
        self._seeds[seed] = self._seeds.get(seed, 0) + 1
        use = self.record.seeds
        if self._seeds[seed] >= use.times:
            use.times, use.at, use.steps = self._seeds[seed], line, self.record.steps


def _kinds(contents: object, depth: int = 0) -> Iterator[str]:
    """What kinds of state a checkpoint has beside weights."""
    if not isinstance(contents, Mapping) or depth > _DEPTH:
        return
    keys = {key for key in contents if isinstance(key, str)}
    if {"state", "param_groups"} <= keys:
        yield "optimizer"
        return
    if "last_epoch" in keys and keys & {"base_lrs", "_last_lr", "_step_count"}:
        yield "schedule"
        return
    for key, value in contents.items():
        if isinstance(value, Tensor):
            if "rng" in str(key).lower() and value.dtype.itemsize == 1:
                yield "random state"
        else:
            yield from _kinds(value, depth + 1)
