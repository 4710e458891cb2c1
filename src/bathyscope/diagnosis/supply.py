"""Where the batches of a treatment come from, and whether what was learned on few carries over."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from statistics import fmean

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn, check_batches, loss_value, run_forward
from bathyscope.core.nested import copy_tensors, map_tensors, tensors_in
from bathyscope.diagnosis.race import Search, label_accuracy

_KEPT_BACK = 4  # one of this many batches is kept back where they repeat
_SMALLEST_SHARED = 32  # samples of a single batch from which on half of it can say something
_BELOW = 0.05  # of the loss's scale, below the constant baseline


class Supply:
    """Batches of a list, a loader or an iterator, checked, over and over.

    Attributes:
        is_repeating: whether a batch was given that may have been given before.
        num_batches: different ones, where they are few; None where they never repeated.
    """

    def __init__(self, model: nn.Module, batches: Iterable[Batch]) -> None:
        self.model = model
        self.source = batches
        self.is_repeating = False
        self.num_batches: int | None = None
        self._seen: list[Batch] = []
        self._rest = self._all()

    def take(self, count: int) -> list[Batch]:
        """The next this many.

        Raises:
            UsageError: there is none, or one of them cannot be used.
        """
        return check_batches(self.model, islice(self._rest, count))

    def _all(self) -> Iterator[Batch]:
        once = isinstance(self.source, Iterator)
        for batch in self.source:
            self._seen = [*self._seen, batch] if once or not self._seen else self._seen
            yield batch
        self.is_repeating = True
        while self._seen:  # a loader that shuffles gives other batches the second time
            yield from self._seen if once else self.source

    def reserve(self) -> list[Batch]:
        """Keep some of few batches back, of one its second half; what is taken later is without them.

        Empty where the batches did not repeat, as each is then new when it is taken, and where a single
        batch is too small to share.
        """
        if not self.is_repeating:
            return []
        every = list(self._seen if isinstance(self.source, Iterator) else self.source)
        self.num_batches = len(every)
        if len(every) == 1:
            [batch] = check_batches(self.model, every)
            kept, held_out = _halves(batch)
            every = [kept]
        else:
            fewest = max(1, len(every) // _KEPT_BACK)
            every, held_out = every[:-fewest], check_batches(self.model, every[-fewest:])
        self._rest = cycle(every)
        return held_out


def _halves(batch: Batch) -> tuple[Batch, list[Batch]]:
    """The two halves of a batch; the whole and nothing where it is small or cannot be shared."""
    sizes = {len(t) for t in tensors_in(batch) if t.ndim}
    if len(sizes) != 1 or (size := sizes.pop()) < _SMALLEST_SHARED:
        return batch, []
    inputs, targets = (
        map_tensors(batch[0], lambda t: t[size // 2 :]),
        map_tensors(batch[1], lambda t: t[size // 2 :]),
    )
    first = (
        map_tensors(batch[0], lambda t: t[: size // 2]),
        map_tensors(batch[1], lambda t: t[: size // 2]),
    )
    return first, [(inputs, targets)]


@torch.no_grad()
def generalizes(search: Search, held_out: Sequence[Batch], *, loss: LossFn) -> bool | None:
    """Whether a trained copy answers samples that it has not seen better than a constant does.

    Labels: more of them right than by naming the most frequent one, by two standard errors. Otherwise
    the loss must be a twentieth below the constant baseline's.
    """
    if not held_out or search.has_diverged:
        return None
    losses, right, count = [], 0.0, 0
    largest = 0.0
    for inputs, targets in held_out:
        output = run_forward(search.model, copy_tensors(inputs))
        losses.append(float(loss_value(loss, output, targets, differentiable=False)))
        accuracy = label_accuracy(output, targets)
        if accuracy is not None:
            known = targets[targets >= 0]
            largest += float(torch.bincount(known.flatten()).max())
            right, count = right + accuracy * known.numel(), count + known.numel()
    if not count:
        return fmean(losses) < search.constant - _BELOW * search.attempt.scale
    chance = largest / count
    return right > count * chance + 2 * math.sqrt(count * chance * (1 - chance))
