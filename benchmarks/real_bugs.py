"""What becomes of real bugs after `treat`: programs from forums, faulty, corrected and treated.

    python -m benchmarks real_bugs [--only NAME,NAME]

Each program is trained on four fifths of its data and scored on the rest (a table of four rows on
itself). The treated one is trained with its own loss and batch size for as long as the corrected one,
which is what its author found to be enough. It counts where it reaches nine tenths of the corrected
program's score. Left out: two programs that reach it as they are or have no corrected figure.
"""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch
from bathyscope.diagnosis import diagnose, treat
from tests.diagnosis.real_bugs import CORRECTED, FAULTY, Subject

LEFT_OUT = ("59278771", "48594888")
ENOUGH = 0.9
_MOST_STEPS = 12_000


def lines() -> Iterator[dict[str, Any]]:
    """One line a program."""
    torch.set_num_threads(1)
    chosen = sys.argv[sys.argv.index("--only") + 1].split(",") if "--only" in sys.argv else FAULTY
    for name in chosen:
        if name not in LEFT_OUT:
            yield {"benchmark": "real_bugs", "case": name} | _scores(name)


def _scores(name: str) -> dict[str, Any]:
    faulty, corrected = FAULTY[name], CORRECTED[name]
    result: dict[str, Any] = {}
    for key, subject in (("faulty", faulty), ("corrected", corrected)):
        torch.manual_seed(0)
        model = subject.build()
        optimizer = subject.optimizer(model)
        result[key] = _trained_score(subject, model, optimizer, steps=_steps(subject))
    torch.manual_seed(0)
    (x, y), _ = _split(faulty)
    model = faulty.build()
    optimizer = faulty.optimizer(model)
    size = max(faulty.batch, 32)
    rows = [torch.randperm(len(x))[:size] for _ in range(400)]
    batches: list[Batch] = [(x[chosen], y[chosen]) for chosen in rows]
    before = diagnose(model, batches[0], loss=faulty.loss, optimizer=optimizer, probes="full")
    treatment = treat(model, before, optimizer=optimizer, batches=iter(batches))
    result |= {
        "found": [f.code for f in before.findings][:4],
        "applied": treatment.applied,
        "helped": treatment.helped,
        "treated": _trained_score(faulty, model, treatment.optimizer, steps=_steps(corrected)),
    }
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in result.items()} | {
        "reached": result["treated"] >= ENOUGH * result["corrected"]
    }


def _steps(subject: Subject) -> int:
    samples = len(_split(subject)[0][0])
    return min(_MOST_STEPS, subject.passes * max(1, samples // subject.batch))


def _split(subject: Subject) -> tuple[Batch, Batch]:
    """Four fifths to train on and the rest; a few samples are both."""
    x, y = subject.data()
    if len(x) < 20:
        return (x, y), (x, y)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    train, test = order[: 4 * len(x) // 5], order[4 * len(x) // 5 :]
    return (x[train], y[train]), (x[test], y[test])


def _trained_score(
    subject: Subject, model: nn.Module, optimizer: torch.optim.Optimizer, *, steps: int
) -> float:
    """The score on the rest after this many steps."""
    (x, y), (x_test, y_test) = _split(subject)
    generator = torch.Generator().manual_seed(2)
    model.train()
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[: subject.batch]
        optimizer.zero_grad()
        subject.loss(model(x[rows]), y[rows]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return _score(model(x_test), y_test)


def _score(output: Tensor, targets: Tensor) -> float:
    """Accuracy of classes or of bits; R² of numbers."""
    if not torch.isfinite(output).all():
        return 0.0
    if not targets.is_floating_point():
        return float((output.argmax(1) == targets).float().mean())
    if output.shape[1] == 10:  # one of ten, as a vector
        return float((output.argmax(1) == targets.argmax(1)).float().mean())
    if float(targets.unique().numel()) <= 3:
        return float((output.round() == targets).float().mean())
    return float(1 - (output - targets).square().mean() / targets.var())
