"""What `watch` costs a training loop: time, memory, and whether the training stays bit for bit the same.

Cheap signals are taken at every step, full ones at every fiftieth. `ratio` is their fraction of the run's
time, from two parts that can each be told from the noise of the machine: the CPU seconds inside the
hooks of the steps without a sample, those of the ledger among them (the mean, for the weights are read at
some of them only) over those of the step; and a fiftieth of what a step with a sample takes longer. The
first steps, on one sample each and never the same, fill the record: events are looked for in full only
after some fifty. Were one reported (`events`), samples would be taken at every step, and the figures would
mean nothing; so no batch is that of the step before.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import nets
from bathyscope.recorder import Watch, watch
from benchmarks.ledger import Inside

_EVERY = 50
_INTERVAL = 7  # of samples here: no step of them is always one at which the weights are read
_FIRST = 56  # steps on one sample each
_COMPARED = (
    2  # steps after which the weights of a watched run are compared, one of them with a sample
)
_BATCH = 64  # the larger one
_OTHERS = 8  # batches that follow one another
_HOOKS = (
    "_before_pass",
    "_after_pass",
    "_keep_loss",
    "_on_backward",
    "_before_update",
    "_after_update",
)


def lines(*, rounds: int = 1) -> Iterator[dict[str, Any]]:
    """A small network, a residual one of 164 layers, and a GPT of 12 blocks on two sizes of batch.

    What is read of gradients does not depend on the batch, so that its fraction falls with it.
    """
    torch.set_num_threads(1)
    repeats = 3 * rounds
    generator = torch.Generator().manual_seed(0)
    rows, columns = (
        torch.randn(512, 256, generator=generator),
        torch.randint(10, (512,), generator=generator),
    )
    yield from _cost(
        "mlp of 4 layers",
        _mlp,
        lambda model, some: F.cross_entropy(model(rows[some]), columns[some]),
        10 * repeats,
        batch=256,
    )
    size = _BATCH + _FIRST + _OTHERS
    x = torch.randn(size, 3, 32, 32, generator=generator)
    y = torch.randint(10, (size,), generator=generator)

    def classify(model: nn.Module, some: slice) -> Tensor:
        return F.cross_entropy(model(x[some]), y[some])

    yield from _cost("preresnet-164, 32x32", _preresnet, classify, repeats, batch=16)
    tokens = torch.randint(256, (size, 65), generator=generator)

    def predict(model: nn.Module, some: slice) -> Tensor:
        seen = tokens[some]
        return F.cross_entropy(model(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())

    for batch, fewer in ((16, repeats), (_BATCH, 2 * rounds)):
        yield from _cost("gpt-12, width 192, 64 tokens", _gpt, predict, fewer, batch=batch)


def _mlp() -> nn.Module:
    layers = [part for _ in range(3) for part in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def _preresnet() -> nn.Module:
    return nets.build("preresnet-164", num_classes=10)


def _gpt() -> nn.Module:
    return nets.build("gpt-12", vocabulary=256, width=192, heads=6, context=64)


def _cost(
    case: str,
    build: Callable[[], nn.Module],
    loss: Callable[[nn.Module, slice], Tensor],
    repeats: int,
    *,
    batch: int,
) -> Iterator[dict[str, Any]]:
    bare, _, _ = _run(build, loss, _COMPARED, batch=batch, watched=False)
    same, _, _ = _run(build, loss, _COMPARED, batch=batch, watched=True)
    steps_in_all = _FIRST + repeats * _INTERVAL
    model, seen, steps = _run(build, loss, steps_in_all, batch=batch, watched=True)
    assert seen is not None
    assert seen.recording is not None
    sampled, cheap = steps[_FIRST::_INTERVAL], []
    for first in range(_FIRST, len(steps), _INTERVAL):
        cheap += steps[first + 1 : first + _INTERVAL]
    usual = statistics.median(cpu for cpu, _ in cheap)
    hooks = statistics.mean(hooks for _, hooks in cheap) / usual
    sample = (statistics.median(cpu for cpu, _ in sampled) - usual) / usual / _EVERY
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    yield {
        "benchmark": "watching",
        "case": f"{case}, batch {batch}: cheap signals at every step, full ones at every {_EVERY}th",
        "ratio": round(hooks + sample, 5),
        "of_cheap": round(hooks, 5),
        "of_full": round(sample, 5),
        "seconds_a_step": round(usual, 3),
        "memory_of_the_record": round(seen.recording.num_bytes / size, 5),
        "bit_for_bit": all(
            torch.equal(a, b)
            for a, b in zip(bare.state_dict().values(), same.state_dict().values(), strict=True)
        ),
        "events": len(seen.events),
        "repeats": repeats,
    }


def _run(
    build: Callable[[], nn.Module],
    loss: Callable[[nn.Module, slice], Tensor],
    steps: int,
    *,
    batch: int,
    watched: bool,
) -> tuple[nn.Module, Watch | None, list[tuple[float, float]]]:
    """Train for some steps, some with a sample; CPU and hook seconds of each."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inside = Inside(*((Watch, name) for name in _HOOKS))
    inside.__enter__()  # before the hooks are set
    seen = watch(model, every=_INTERVAL) if watched else None
    times = []
    for step in range(steps):
        began, hooks = time.process_time(), inside.seconds
        optimizer.zero_grad()
        is_short = step < _FIRST < steps
        first, size = (batch + step, 1) if is_short else (step % _OTHERS, batch)
        loss(model, slice(first, first + size)).backward()
        optimizer.step()
        times.append((time.process_time() - began, inside.seconds - hooks))
    inside.__exit__()
    if seen is not None:
        seen.remove()
    return model, seen, times
