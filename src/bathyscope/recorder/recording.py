"""The record of a training: step by step signals and samples go in, events come out."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from bathyscope.core.blocks import Blocks
from bathyscope.core.trackers import Tracker
from bathyscope.recorder.detect import detect, stirrings
from bathyscope.recorder.event import Event
from bathyscope.recorder.groups import GradientTurns, Norms, ParameterGroups
from bathyscope.recorder.history import (
    FEWEST_POINTS,
    MOST_POINTS,
    WINDOW,
    BoundedCurve,
    History,
    Signal,
)
from bathyscope.recorder.log import LastWeights, Log, last_weights
from bathyscope.recorder.open_step import OpenStep
from bathyscope.recorder.samples import Row, SampleObserver, TakenSamples, sample_rows
from bathyscope.recorder.sketch import EntryViews, checksum
from bathyscope.recorder.transitions import sampled_events

# After an event, full signals are taken ten times as often for the time of one interval.
_MORE_OFTEN = 10
# Passes after which a loop without an optimizer is taken for one that counts passes.
_UNDECIDED = 32
# The same kind of event is reported again only after this many steps without one.
_PAUSE = 64
# Samples take at most this fraction of the model's own memory, but there are twelve of them at least;
# points of the curve at most this one.
_FRACTION, _FEWEST, _OF_CURVE = 0.003, 12, 0.0015
# Steps between two readings of the weights, where nothing stirs, and those at the start without a pause.
_WEIGHTS_EVERY, _FIRST_STEPS = 10, 16
# Steps with the batch of the step before, after which it is not an accident, and how far norms of one differ.
_REPEATED_STEPS, _SAME_NORM = 6, 1e-6
# Steps of which all are in the log.
_ALL_LOGGED = 10_000
# A rate that differs by this factor from the step before stirs.
_OTHER_RATE = 1.4
# A norm that differs by more between two steps was not left so by the optimizer.
_CHANGED = 0.01
# Between the end of a log and a training that resumes from a checkpoint lie ordinary steps: a group
# whose norm differs by this fraction, and this many times as far as the median group, was not left so.
_RESUMED, _UNLIKE = 0.5, 10.0


class Recording:
    """Signals, samples, log and events of one training.

    Attributes:
        every: steps between two full samples.
        first_step: its number; other than 0 where the log holds an earlier part of the training.
        steps: the number of the step that comes next.
        events: in order.
        waiting: events that `on_event` has not seen yet.
    """

    def __init__(
        self, model: nn.Module, blocks: Blocks, groups: ParameterGroups, *, every: int
    ) -> None:
        self.blocks = blocks
        self.groups = groups
        self.gradients = GradientTurns(groups)
        self.every = every
        self.first_step = 0
        self.steps = 0
        self.events: list[Event] = []
        self.waiting: list[Event] = []
        self.log: Log | None = None
        self.tracker: Tracker | None = None
        self.counts_updates = False
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        self.samples = TakenSamples(blocks, most=_FEWEST)
        most = int(_FRACTION * size) // max(1, self.samples.num_bytes_each)
        self.samples.most = max(_FEWEST, most)
        self.history = History(groups.labels)
        points = int(_OF_CURVE * size) // BoundedCurve.NUM_BYTES_EACH
        self._points = min(MOST_POINTS, max(FEWEST_POINTS, points))
        self.curve = BoundedCurve(most=self._points)
        self._dense_until = 0
        self._last_seen: dict[str, int] = {}
        self._versions: tuple[int, ...] = ()
        self._weights: Norms = np.zeros(0)  # as they were last read,
        self._weights_read = -1  # at this step,
        self._drift: Norms = np.zeros(0)  # and by which share they moved in a step before it
        self._rate = math.nan
        self._others_wrote = -_PAUSE  # the last step before which they did
        self._entries = EntryViews(groups.parameters)
        self._batch_norm = math.nan  # of the last one,
        self._batch = 0  # a checksum of it,
        self._is_sure = False  # whether its entries were those of the batch before,
        self._repeats = 0  # how often it has come since,
        self._others = 0  # and how many came before, each unlike the one before it

    @property
    def is_sampled(self) -> bool:
        """Whether full signals are due at the step that begins now."""
        often = max(1, self.every // _MORE_OFTEN)
        interval = often if self.steps < self._dense_until else self.every
        return self.steps % interval == 0

    @property
    def _is_undecided(self) -> bool:
        """Whether the passes so far may turn out to be parts of one step."""
        return not self.counts_updates and self.steps - self.first_step < _UNDECIDED

    @property
    def num_bytes(self) -> int:
        """Memory that it takes at most, however long the training."""
        samples = self.samples.most * self.samples.num_bytes_each
        return self.history.num_bytes + self.curve.num_bytes + samples

    def write_to(self, log: Log, norms: Norms) -> None:
        """Keep a log; where it holds an earlier part of the training, count on from there.

        Weights, of these norms by group, that are not those it ended with, up to ordinary steps, are
        reported: a checkpoint that was damaged, or another one.
        """
        self.log = log
        last = last_weights(log.folder)
        if last is None:
            return
        self.first_step = self.steps = last.step + 1
        now = dict(zip(self.groups.labels, norms.tolist(), strict=True))
        shared = [label for label in now if label in last.norms]
        change = {x: abs(now[x] - last.norms[x]) / max(last.norms[x], 1e-30) for x in shared}
        if not change:
            return
        changes = list(change.values())
        label = max(change, key=lambda x: change[x] if math.isfinite(change[x]) else math.inf)
        if not change[label] <= max(_RESUMED, _UNLIKE * float(np.nanmedian(changes))):
            numbers = {"weight_norm": now[label], "norm_before": last.norms[label]}
            before = (
                f"step {last.step}: the log ended, and the training continued from a checkpoint",
            )
            self.notify(
                Event(
                    code="weights-changed",
                    step=self.steps,
                    began=label,
                    block=label,
                    before=before,
                    numbers=numbers,
                )
            )

    def write_weights(self) -> None:
        """Write what a training that resumes from the last step will be compared with."""
        if self.log is not None and self.history.num_steps:
            norms = self.history.weights[-1].tolist()
            last = int(self.history.steps[-1])
            self.log.weights(LastWeights(last, dict(zip(self.groups.labels, norms, strict=True))))

    def count_updates(self, step: OpenStep) -> None:
        """The first update has come: the passes before it belonged to this one step, and are let go.

        Their first sample stands for the step where its last pass has none.
        """
        self.counts_updates = True
        if self.steps > self.first_step:
            self.steps = self.first_step
            self.history = History(self.groups.labels)
            self.curve = BoundedCurve(most=self._points)
            first = self.samples.values[:1] if step.observer is None else []
            self.samples = TakenSamples(self.blocks, most=self.samples.most)
            for values in first:
                self.samples.append(self.first_step, values)
            if self.log is not None:
                self.log.forget()

    def gradient_norms(self, beside: Sequence[Tensor]) -> tuple[Norms, list[float]]:
        """Of the step under way; all of them are read as long as there is no habit, and after an event."""
        is_new = self.history.num_steps < WINDOW or self.steps < self._dense_until
        return self.gradients.norms(beside, of_all=is_new or self.is_sampled)

    def close(self, step: OpenStep) -> None:
        """Take in a finished step."""
        gradients = step.gradients
        if gradients is None or step.losses_there or step.input_norm is not None:
            gradients, numbers = self.groups.gradient_norms_beside(step.scalars_there())
            step.take(numbers)
        loss = sum(step.losses) / len(step.losses) if step.losses else math.nan
        square, entries = step.input_square, step.input_entries
        if (group := self.groups.group) is not None:
            own = [loss * step.samples, step.samples, square, entries]
            summed = group.sum(torch.tensor(own, dtype=torch.float64, device="cpu"))
            loss, square, entries = float(summed[0] / summed[1]), float(summed[2]), int(summed[3])
            if step.observer is not None:
                step.observer.put_gradients(step.samples / float(summed[1]))
        total = _total(gradients)
        is_read = self._stirs(total, step.rate)
        if is_read:
            self._read_weights()
        signal = Signal(
            step=self.steps,
            loss=loss,
            rate=step.rate,
            input_scale=math.sqrt(square / max(1, entries)),
            gradients=gradients,
            weights=self._weights,
            total_gradient=total,
        )
        self._versions, self._rate = self.groups.versions(), step.rate
        self._entries.keep()
        self.history.append(signal)
        self.curve.append(signal)
        if self.log is not None and self._is_logged(1):
            self.log.step(signal)
        result = list(detect(self.history, location=step.location, weights_read=is_read))
        if result and not is_read:  # where it began is a question to the weights, too
            self._read_weights()
            self.history.correct_weights(self._weights)
            result = list(detect(self.history, location=step.location))
        if self._last_seen.get("weights-changed") == self.steps:
            # they did not run away: somebody else wrote them, and that was reported
            result = [event for event in result if event.code != "exploding-weights"]
        if step.observer is not None and not step.observer.is_empty:
            result += self._keep(step.observer)
        if self._is_undecided:
            # these passes may turn out to be parts of one step, on unlike parts of the data
            result = [event for event in result if event.code == "non-finite"]
        if not result:
            self.history.accept()
        for event in result:
            self.notify(event)
        self.steps += 1

    def _is_logged(self, every: int) -> bool:
        """Whether a log of every few steps has a line for this one: ever more rarely, as it grows.

        All of the first 10,000 steps, then every second, fourth, … with each doubling; all after an event.
        """
        thinned = 1 << (self.steps // _ALL_LOGGED).bit_length()
        return thinned == 1 or self.steps < self._dense_until or self.steps % (every * thinned) == 0

    def _stirs(self, gradient: float, rate: float) -> bool:
        """Whether the weights are to be read at this step.

        They move little from one step to the next, so that every tenth is enough, as long as the rate
        and the gradient are those that the run has shown, and nobody but the optimizer writes them.
        (Weights in shards are read by all processes together, which may not judge by their own signals.)
        """
        if self.groups.in_shards or self.is_sampled or self.history.num_steps < _FIRST_STEPS:
            return True
        if self.steps >= self._weights_read + _WEIGHTS_EVERY or self.steps < self._dense_until:
            return True
        if self.steps < self._others_wrote + _PAUSE:
            return True
        before = self._rate
        if rate < before / _OTHER_RATE or rate > before * _OTHER_RATE:
            return True
        return not gradient <= self.history.highest_gradient

    def _read_weights(self) -> None:
        norms = self.groups.weight_norms()
        if len(self._weights):
            between = max(1, self.steps - self._weights_read)
            self._drift = _relative(norms, self._weights) / between
        self._weights, self._weights_read = norms, self.steps

    def _keep(self, observer: SampleObserver) -> list[Event]:
        self.samples.append(self.steps, observer.values)
        is_shown = self.log is not None or self.tracker is not None
        rows = list(sample_rows(self.blocks, self.steps, observer.values)) if is_shown else []
        if self.log is not None:
            if self._is_logged(self.every):
                self.log.sample(rows)
            if not self._is_undecided:
                self.log.flush()
                self.write_weights()
        if self.tracker is not None:
            for row in rows:
                _log_row(self.tracker, row)
        result = list(sampled_events(self.samples))
        if not result:
            return []
        before = stirrings(self.history, until=len(self.history.steps) - 1)
        return [replace(event, before=before) for event in result]

    def look_for_changed_weights(self) -> None:
        """Report weights that something other than the optimizer has written since the last step."""
        if not self._versions or self.groups.versions() == self._versions:
            return
        is_rare = self.steps - self._others_wrote >= _PAUSE and self.steps >= _FIRST_STEPS
        self._others_wrote = self.steps
        before, now = self._weights, self.groups.weight_norms()
        change = _relative(now, before)
        between = self.steps - 1 - self._weights_read  # ordinary steps since they were read
        if between > 0:
            change = np.where(np.isfinite(self._drift), change - between * self._drift, change)
        group = int(np.argmax(change))
        is_far = change[group] > _CHANGED
        written = self._entries.changed() if is_rare and not is_far else []
        if written:  # any write, however small, that is not undone and not the loop's habit
            group = int(np.searchsorted(self.groups.starts, written[0], side="right")) - 1
        if is_far or written:
            label = self.groups.labels[group]
            self.notify(
                Event(
                    code="weights-changed",
                    step=self.steps,
                    began=label,
                    block=label,
                    numbers={
                        "weight_norm": float(now[group]),
                        "norm_before": float(before[group]),
                        "groups": int((change > _CHANGED).sum()),
                    },
                )
            )

    def take_batch(self, batch: Tensor, norm: float) -> None:
        """Report a batch that comes again and again, in a training whose batches differed before.

        Batches of another norm differ, up to what the place of a tensor in memory changes of a sum;
        entries are read only where the norm came before, or is NaN.
        """
        is_like = math.isnan(norm) or math.isclose(norm, self._batch_norm, rel_tol=_SAME_NORM)
        now = checksum(batch) if is_like else 0
        before, self._batch, self._batch_norm = self._batch, now, norm
        if is_like and before in (now, 0):  # 0: that of the first of them was not read
            self._repeats += 1
            self._is_sure = before != 0
            if self._repeats == _REPEATED_STEPS and self._others >= _FIRST_STEPS:
                first = self.steps - _REPEATED_STEPS
                numbers = {"steps": _REPEATED_STEPS}
                self.notify(
                    Event(code="repeated-batch", step=first, began="batch", numbers=numbers)
                )
            return
        # batches that have come twice by design, or by chance, are not events later
        is_chance = self._repeats == 1 and not self._is_sure  # norms alone were compared
        self._others = self._others + 1 if self._repeats == 0 or is_chance else 0
        self._repeats = 0

    def report_lost_loss(self, step: OpenStep) -> None:
        """A loss that is non-finite, reported before the optimizer may refuse the step."""
        assert step.location is not None
        is_block = step.location in {b.label for b in self.blocks}
        self.notify(
            Event(
                code="non-finite",
                step=self.steps,
                began=step.location,
                block=step.location if is_block else None,
                numbers={"loss": step.losses[-1]},
            )
        )

    def notify(self, event: Event) -> None:
        """Keep an event and write it at once, unless one of its kind is still going on."""
        last = self._last_seen.get(event.code)
        self._last_seen[event.code] = self.steps
        if last is not None and self.steps - last < _PAUSE:
            return
        self._dense_until = self.steps + self.every
        self.events.append(event)
        self.waiting.append(event)
        if self.log is not None:
            self.log.event(event)
        if self.tracker is not None:
            _log_event(self.tracker, event)


def _total(norms: Norms) -> float:
    """√Σ‖g‖² over the groups that have one."""
    # numbers of Python: for some tens of groups an operation of numpy's takes longer
    return math.sqrt(sum([norm * norm for norm in norms.tolist() if not norm < 0]))


def _relative(now: Norms, before: Norms) -> Norms:
    """By which fraction norms have changed; infinite where one is non-finite now."""
    change = np.abs(now - before) / np.maximum(before, 1e-30)
    return np.where(np.isfinite(now), change, np.inf)


def _log_row(tracker: Tracker, row: Row) -> None:
    """The numbers of one block at one step, as `block/column`."""
    step, block = row["step"], row["block"]
    assert isinstance(step, int)
    for column, value in row.items():
        if column not in ("step", "block") and value is not None and not isinstance(value, str):
            tracker.log_number(f"{block}/{column}", float(value), step)


def _log_event(tracker: Tracker, event: Event) -> None:
    """An event, as a one at its step."""
    tracker.log_number(f"event/{event.code}", 1.0, event.step)
