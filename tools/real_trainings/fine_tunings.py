"""Forecasts of ten fine-tunings from weights that are trained here first.

    python -m tools.real_trainings.fine_tunings OUT.jsonl

A network learns the digits 0 to 4 and is then trained on 5 to 9, its last layer drawn again, with one of
five settings. The forecast is made before the fine-tuning; labels are those of `labels.py` among the
five settings of one network.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from bathyscope import forecast
from bathyscope.core.stepping import train_steps
from bathyscope.foresight.extrapolation import loss_scale
from tools.real_trainings.labels import end_loss, label_curve

BUDGET, PRETRAINED, SIZE = 400, 300, 32
SETTINGS = (("adamw", 1e-3), ("adamw", 1e-5), ("adamw", 1.0), ("sgd", 0.05), ("sgd", 1e-4))


def dense() -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
    )


def convolutional() -> nn.Module:
    """Two convolutions with batch norm, pooled."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 5),
    )  # fmt: skip


def batches(digits: range, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled batches of some digits, without end; the first of them is label 0."""
    images, labels = load_digits(return_X_y=True)
    chosen = (labels >= digits.start) & (labels < digits.stop)
    x = torch.tensor(images[chosen], dtype=torch.float32).reshape(-1, 8, 8) / 8 - 1
    y = torch.tensor(labels[chosen]) - digits.start
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(x), generator=generator)
        for first in range(0, len(order) - SIZE + 1, SIZE):
            rows = order[first : first + SIZE]
            yield x[rows], y[rows]


def pretrained(build: Callable[[], nn.Module]) -> nn.Module:
    """A network that knows the digits 0 to 4, its last layer drawn again."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in train_steps(
        model, optimizer, islice(batches(range(5), 0), PRETRAINED), loss=F.cross_entropy
    ):
        step.take()
    last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    last.reset_parameters()
    return model


def fine_tunings() -> Iterator[dict[str, object]]:
    """What was forecast and what became of it."""
    for name, build in (("dense", dense), ("convolutional", convolutional)):
        said, curves = [], []
        for kind, rate in SETTINGS:
            model = pretrained(build)
            optimizer = (
                torch.optim.AdamW(model.parameters(), lr=rate)
                if kind == "adamw"
                else torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
            )
            given = list(islice(batches(range(5, 10), 1), 60))
            said.append(forecast(model, given, optimizer=optimizer, budget=BUDGET))
            losses = []
            for step in train_steps(
                model, optimizer, islice(batches(range(5, 10), 2), BUDGET), loss=F.cross_entropy
            ):
                step.take()
                losses.append(step.loss)
            curves.append(torch.tensor(losses).numpy())
        constant = float(torch.tensor(5.0).log())
        best = min(end_loss(c) for c in curves)
        for (kind, rate), one, curve in zip(SETTINGS, said, curves, strict=True):
            scale = loss_scale(constant, float(curve[0]))
            label = label_curve(
                curve, constant=constant, best=best, scale=scale, is_cut=len(curve) < BUDGET
            )
            low, high = one.interval or (0.0, 0.0)
            yield {
                "network": name,
                "setting": f"{kind} {rate:g}",
                "verdict": one.verdict,
                "probability": round(one.probability, 3),
                "interval": [round(low, 4), round(high, 4)],
                "label": label.label,
                "end": round(label.end, 4),
                "is_covered": low <= label.end <= high,
                "inside": one.inside,
            }


if __name__ == "__main__":
    torch.set_num_threads(1)
    with Path(sys.argv[1]).open("w") as file:
        for row in fine_tunings():
            file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
