"""A step of several ranks beside the same one on one rank, with all of their samples in one batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, check_batch
from bathyscope.core.global_state import measuring, preserve_random_state
from bathyscope.core.nested import map_tensors, tensors_in
from bathyscope.diagnosis.twin import (
    MARGIN,
    PERTURBATIONS,
    Parting,
    Twin,
    TwinSide,
    block_of,
    distance,
    plain_sgd,
    wide,
)

_ALIKE = 0.02
"""Of a factor, or of a gradient, to be called the same."""

Tensors = Mapping[str, Tensor]


def twin_of_ranks(
    model: nn.Module,
    batch: Batch,
    loss: LossFn,
    given: Tensors,
    others: Sequence[Mapping[str, Any]],
) -> Twin:
    """Compare the gradient that ranks have made together with that of all samples in one batch.

    Args:
        model: as it was on the first rank, before the step.
        batch: of the first rank.
        loss: of its samples.
        given: gradients by name, as they were just before the optimizer's step.
        others: `weights` by name and the tensors of the `batch` of every other rank.

    Returns:
        Where the two part first: weights that differ between ranks, then gradients of parameters from the
        last to the first; with what the gradient looks like instead.
    """
    whole_batch = _joined(batch, others)
    with measuring(), preserve_random_state():
        side = TwinSide.of(model, check_batch(model, whole_batch), loss, None, plain_sgd)
        seen = side.look()
        shaken = [side.look(noise=seen.eps, seed=i + 1).parameters for i in range(PERTURBATIONS)]
        alone = TwinSide.of(model, check_batch(model, batch), loss, None, plain_sgd).look()
    whole, used = seen.parameters, {name: wide(gradient) for name, gradient in given.items()}
    names = [name for name in reversed(whole) if name in used]
    rows = [
        Parting(
            0, "weights", block_of(name, side), distance(wide(p), wide(o["weights"][name])), 0.0
        )
        for o in others
        for name, p in side.model.named_parameters()
    ]
    for name in names:
        noise = max(distance(whole[name], other[name]) for other in shaken)
        rows.append(
            Parting(
                step=0,
                what="parameter gradient",
                block=block_of(name, side),
                difference=distance(whole[name], used[name]),
                allowed=MARGIN * max(noise, seen.eps),
            )
        )
    first = next((row for row in rows if row.is_apart), None)
    notes = list(_reasons(first, names, whole, alone.parameters, used, ranks=len(others) + 1))
    if first is not None and first.what != "weights":
        notes += _own_of_ranks(
            model, [_samples(b) for b in (tensors_in(batch), *(o["batch"] for o in others))]
        )
        with measuring(), preserve_random_state():
            again = side.look(draws=2).parameters
        allowed = MARGIN * seen.eps
        if any(distance(whole[name], again[name]) > allowed for name in names):
            notes.append(
                "The model draws random numbers, as dropout does, others on every rank: some of the "
                "difference is theirs."
            )
    return Twin(first, tuple(rows), tuple(notes))


def _joined(batch: Batch, others: Sequence[Mapping[str, Any]]) -> Any:
    """The batch of the first rank with the samples of the others behind its own."""
    own = list(tensors_in(batch))
    size = _samples(own)
    joined = iter(
        torch.cat([t, *(o["batch"][i].to(t.device) for o in others)])
        if t.ndim and len(t) == size
        else t
        for i, t in enumerate(own)
    )
    return map_tensors(batch, lambda t: next(joined))


def _samples(batch: Iterable[Tensor]) -> int:
    return next(len(t) for t in batch if t.ndim)


def _own_of_ranks(model: nn.Module, sizes: Sequence[int]) -> Iterator[str]:
    """What healthy ranks do otherwise than one with all their samples."""
    batch_norms = nn.modules.batchnorm._BatchNorm
    if any(isinstance(m, batch_norms) and m.training for m in model.modules()):
        yield (
            "Batch normalization takes the statistics of each rank's own samples: some of the difference "
            "is its own (nn.SyncBatchNorm takes those of all)."
        )
    if len(set(sizes)) > 1:
        known = ", ".join(map(str, sizes[:4])) + (", …" if len(sizes) > 4 else "")
        yield (
            f"Ranks have batches of unlike sizes ({known}): the mean of their means is not that of all "
            "samples."
        )


def _reasons(
    first: Parting | None,
    names: Sequence[str],
    whole: Tensors,
    alone: Tensors,
    given: Tensors,
    *,
    ranks: int,
) -> Iterator[str]:
    """What the gradient that was used looks like."""
    if first is None or not names:
        return
    if first.what == "weights":
        yield "Replicas are to begin with the same weights: broadcast them, or wrap the model in DDP."
        return
    one, own, used = (
        torch.cat([g[name].flatten() for name in names]) for g in (whole, alone, given)
    )
    factor = float(used @ one) / max(float(one @ one), 1e-30)
    if distance(own, used) < _ALIKE:
        yield "The gradient is that of the first rank's own samples: it is not averaged over the ranks."
    elif abs(factor / ranks - 1) < _ALIKE and distance(factor * one, used) < _ALIKE:
        yield f"The gradient is {factor:.3g} times that of one rank: a sum over the ranks, not their mean."
