"""Networks that people know: the forecast before, the outcome after.

    python -m benchmarks.forecast_cases forecast OUT.jsonl    # every forecast, before anything is trained
    python -m benchmarks.forecast_cases train OUT.jsonl       # then 300 steps with two seeds each; resumable

The networks of timm need timm and torchvision; without them they are left out, and said.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import data, foresight, nets
from bathyscope.core.files import write_atomic
from bathyscope.core.losses import token_cross_entropy
from bathyscope.foresight.model import FAILED, TRAINED
from tests import zoo

BUDGET = 300
_BATCH = 32
_WINDOW = 10
_SEEDS = (1, 2)
_FORECAST_SEED = 0
_IGNORED = -100
_ADAM: dict[str, Any] = {"optimizer": torch.optim.Adam, "options": {}}


@dataclass(frozen=True, slots=True)
class ForecastCase:
    """A network, its data and the optimizer that someone would take, or should not.

    Attributes:
        name: as the table shows it.
        build: the network, from a seed that was set before.
        task: `digits`, `mnist` or a set of sequences.
        rate: of the optimizer.
        optimizer: of torch.
        options: its other arguments.
    """

    name: str
    build: Callable[[], nn.Module]
    task: str
    rate: float
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD
    options: dict[str, Any] = field(default_factory=lambda: {"momentum": 0.9})

    @property
    def key(self) -> str:
        """What distinguishes it from the others."""
        return f"{self.name}, {self.task}, {self.optimizer.__name__} {self.rate:g}"

    def training(self, seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The network at its start, and its optimizer."""
        torch.manual_seed(seed)
        model = self.build()
        return model, self.optimizer(model.parameters(), lr=self.rate, **self.options)


def cases() -> Iterator[ForecastCase]:
    """The papers' networks, transformers, and three of timm at a sensible and at an absurd rate."""
    yield from _papers("digits")
    yield from _transformers()
    yield from _timm()
    yield from _papers("mnist")


def _papers(task: str) -> Iterator[ForecastCase]:
    for name in ("plain-56", "preresnet-56", "plain-164"):
        yield ForecastCase(name, lambda name=name: nets.build(name, in_channels=1), task, 0.1)


def _transformers() -> Iterator[ForecastCase]:

    vocabulary = data.sequences("sorting").vocabulary

    def gpt(norm: str) -> nn.Module:
        return nets.build("gpt-6", vocabulary=vocabulary, width=64, heads=4, context=32, norm=norm)

    yield ForecastCase("gpt-6", lambda: gpt("pre"), "sorting", 1e-3, **_ADAM)
    yield ForecastCase("gpt-6, post-norm", lambda: gpt("post"), "sorting", 1e-3, **_ADAM)
    yield ForecastCase(
        "vit-24, post-norm",
        lambda: nets.build("vit-24", image_size=8, patch=2, in_channels=1, width=64, heads=4, norm="post"),
        "digits", 3e-3, **_ADAM,
    )  # fmt: skip


def _timm() -> Iterator[ForecastCase]:
    if find_spec("timm") is None or find_spec("torchvision") is None:
        print("timm is not installed: its networks are left out.", file=sys.stderr)
        return
    create = zoo.timm().create_model
    for name, options, sensible, absurd, adamw in (
        ("resnet10t", {}, 0.05, 50.0, False),
        ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8}, 5e-4, 0.5, True),
        ("convnext_atto", {}, 1e-3, 1.0, True),
    ):
        for rate in (sensible, absurd):
            yield ForecastCase(
                f"timm {name}",
                lambda name=name, options=options: create(name, in_chans=1, num_classes=10, **options),
                "mnist at 32×32", rate, **(_ADAM if adamw else {}),
            )  # fmt: skip


@cache
def _samples(task: str) -> tuple[Tensor, Tensor]:
    if task == "sorting":
        result = data.sequences("sorting", context=32)
        return result.train_inputs, result.train_targets
    loaded = data.load("digits" if task == "digits" else "mnist", normalize=True)
    inputs, labels = loaded.train_inputs[:10_000], loaded.train_labels[:10_000]
    return (F.pad(inputs, (2, 2, 2, 2)) if task.endswith("32×32") else inputs), labels


def batches(task: str, seed: int, count: int = BUDGET) -> Iterator[tuple[Tensor, Tensor]]:
    """So many batches, the samples in a new order each time round."""
    inputs, targets = _samples(task)
    generator, order = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.int64)
    for _ in range(count):
        if len(order) < _BATCH:
            order = torch.randperm(len(inputs), generator=generator)
        chosen, order = order[:_BATCH], order[_BATCH:]
        yield inputs[chosen], targets[chosen]


def forecast_line(case: ForecastCase) -> dict[str, Any]:
    """What is said before."""
    model, optimizer = case.training(_FORECAST_SEED)
    given = list(batches(case.task, _FORECAST_SEED, 32))
    said = foresight.forecast(
        model, given, loss=token_cross_entropy, optimizer=optimizer, budget=BUDGET
    )
    return {
        "case": case.key,
        "verdict": said.verdict,
        "probability": round(said.probability, 3),
        "kind": said.kind,
        "spent": said.spent,
        "inside": said.inside,
        "outside": list(said.outside),
        "because": list(said.because),
        "model": said.calibrated_on["data"],
    }


def accuracy_after_training(case: ForecastCase, seed: int) -> float:
    """Fraction of right labels over the last ten of 300 training batches; 0 where the loss is non-finite."""
    model, optimizer = case.training(seed)
    scores = list[float]()
    for batch in batches(case.task, seed):
        output = model(batch[0])
        value = token_cross_entropy(output, batch[1])
        if not torch.isfinite(value):
            return 0.0
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        asked = batch[1] != _IGNORED
        scores.append(float((output.argmax(-1) == batch[1])[asked].float().mean()))
    return sum(scores[-_WINDOW:]) / _WINDOW


def outcome(scores: list[float]) -> str:
    """As the table's networks are judged."""
    if min(scores) >= TRAINED:
        return "trains"
    return "fails" if max(scores) < FAILED else "between"


def main(command: str, out: Path) -> None:
    """Forecast all, or train those that have no outcome yet."""
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.is_file() else []
    known = {line["case"]: line for line in lines}
    for case in cases():
        if command == "forecast" and case.key not in known:
            known[case.key] = forecast_line(case)
        elif command == "train" and "outcome" not in known[case.key]:
            scores = [round(accuracy_after_training(case, seed), 3) for seed in _SEEDS]
            known[case.key] |= {"scores": scores, "outcome": outcome(scores)}
        else:
            continue
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in known.values())
        write_atomic(out, text.encode())
        print(known[case.key], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
