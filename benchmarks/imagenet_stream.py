"""The paper preset of table IV on a generated folder of ImageNet's layout: first steps, memory, resume.

Two thousand pictures in a thousand classes to train on, one per class to test on; the true network
(ResNet-101 at 224×224), streamed. Lines: resident memory over 200 batches, two steps at the batch size
given by `--batch=N`, and whether a run that is stopped after a step and resumed ends bit for bit where
an uninterrupted one does.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bathyscope import data, nets
from bathyscope.runs import load_checkpoint
from bathyscope.studies.registry import all_studies
from bathyscope.training import Callback, train
from bathyscope.training.loop import Loop

_CLASSES = 1000
_BATCHES = 200


def make_pictures(root: Path) -> None:
    """`imagenet/train/CLASS/*.JPEG` and `imagenet/val/CLASS/*.JPEG`, small random pictures."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for part, count in (("train", 2), ("val", 1)):
        for label in range(_CLASSES):
            location = root / "imagenet" / part / f"n{label:08d}"
            location.mkdir(parents=True)
            for number in range(count):
                coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                picture = Image.fromarray(coarse).resize((256, 240), Image.Resampling.BILINEAR)
                picture.save(location / f"{number}.JPEG")


class StopAfter(Callback):
    """Ends a run as a signal would."""

    def on_step(self, loop: Loop, record: Any) -> None:
        """After the first step."""
        if loop.step == 1:
            os.kill(os.getpid(), 15)


def resident() -> int:
    """Bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lines() -> Iterator[dict[str, Any]]:
    """Memory, steps, resume."""
    torch.set_num_threads(1)
    text = [w for w in sys.argv if w.startswith("--batch=")]
    batch = int(text[0].partition("=")[2]) if text else 32
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(Path(folder))
        result = data.load("imagenet", data_dir=folder, normalize=True, stream=True)
        need = data.memory_need("imagenet", data_dir=folder)
        yield {"benchmark": "imagenet_stream", "case": f"said beforehand: {need}", "ratio": None}
        yield _flat(result)
        yield _steps(result, Path(folder), batch)
        yield _resume(result, Path(folder))


def _flat(result: data.DataSet) -> dict[str, Any]:
    assert isinstance(result.train_inputs, data.Streamed)
    orders = [torch.arange(4) + 4 * (i % 500) for i in range(_BATCHES)]
    sizes = [resident() for _ in result.train_inputs.batches(orders)]
    growth = max(sizes[20:]) - sizes[20]
    return {
        "benchmark": "imagenet_stream",
        "case": f"resident memory over {_BATCHES} batches of 4, one worker",
        "ratio": round(max(sizes[20:]) / sizes[20], 4),
        "megabytes": round(growth / 1e6, 2),
    }


def _task(batch: int, steps: int) -> Any:
    study = all_studies()["singularity.table_4"]
    tasks = study.tasks(study.presets["printed"])
    chosen = next(task for task in tasks if task.model == "imagenet-resnet-101")
    update = {"batch_size": batch, "max_steps": steps, "evaluate_every": 0, "patience": None}
    return chosen.model_copy(update=update)


def _run(result: data.DataSet, task: Any, folder: Path, *callbacks: Callback) -> Any:
    def build() -> torch.nn.Module:
        return nets.build_for(task.model, result.shape, num_classes=1000, **task.model_options)

    examples = (result.train_inputs, result.train_labels)
    return train(build, examples, config=task, folder=folder, callbacks=callbacks)


def _steps(result: data.DataSet, folder: Path, batch: int) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    done = _run(result, _task(batch, 2), folder / "steps")
    import resource

    return {
        "benchmark": "imagenet_stream",
        "case": f"two steps of imagenet-resnet-101 at 224×224, batch {batch}: {done.status}",
        "losses": done.curve("loss"),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall_seconds": round(time.perf_counter() - began, 1),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "ratio": None,
    }


def _resume(result: data.DataSet, folder: Path) -> dict[str, Any]:
    whole = _run(result, _task(4, 2), folder / "whole")
    stopped = _run(result, _task(4, 2), folder / "parts", StopAfter())
    resumed = _run(result, _task(4, 2), folder / "parts")
    a, b = (load_checkpoint(folder / name) for name in ("whole", "parts"))
    assert a is not None
    assert b is not None
    alike = all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
    return {
        "benchmark": "imagenet_stream",
        "case": f"{stopped.status} after a step, then {resumed.status}: weights and losses bit for bit "
        f"{'equal' if alike and resumed.history == whole.history else 'UNEQUAL'}",
        "ratio": None,
    }
