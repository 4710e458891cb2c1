"""The runs that tables 2 and 3 and figure 5 look at: errors after a full training."""

from typing import ClassVar

import pandas as pd

from bathyscope.papers.norm_preservation.studies.architectures import (
    ArchitectureTrial,
    architecture_trial,
)
from bathyscope.studies.record import Preset
from bathyscope.studies.sampling import difference_error, num_test_images
from bathyscope.studies.store import Store


class AccuracyPreset(Preset):
    """Settings of a full training with a stepwise learning rate."""

    sources: ClassVar = {
        "data": "printed: CIFAR-10 and CIFAR-100",
        "also": "printed: CIFAR-10 and CIFAR-100",
        "depths": "printed: the tables and the axis of figure 5",
        "epochs": "cited: 300, with drops after 150 and 225; the paper prints no schedule",
        "lr": "printed: 0.1",
        "batch_size": "printed: 128",
        "num_train": "ours: all images",
        "num_test": "ours: all images",
        "augmented": "printed: flips and shifts",
        "seeds": "not printed for these tables: one",
    }
    depths: tuple[int, ...]
    epochs: int
    lr: float = 0.1
    batch_size: int = 128
    num_train: int | None = None
    num_test: int | None = None
    augmented: bool = True
    also: str | None = None


def trials(
    preset: AccuracyPreset, variants: tuple[str, ...], *, erased: tuple[bool, ...] = (False,)
) -> list[ArchitectureTrial]:
    """One run a data set, variant, depth and seed."""
    return [
        architecture_trial(
            preset,
            name,
            depth,
            erased=is_erased,
            augmented=preset.augmented,
            data=data,
            seed=seed,
            schedule="step",
            log_every=50,
        )
        for data in (preset.data, preset.also)
        if data is not None
        for depth in preset.depths
        for name in variants
        for is_erased in erased
        for seed in range(preset.seeds)
    ]


def errors(store: Store, tasks: list[ArchitectureTrial]) -> pd.DataFrame:
    """One row per run: test and training error in percent, and the number of parameters."""
    frame = store.endings(tasks, keys=("model", "variant", "depth", "data", "seed"))
    counts = {task.model: task.num_parameters() for task in tasks}
    return frame.assign(
        test_error=100 * (1 - frame["test_accuracy"]),
        train_error=100 * (1 - frame["train_accuracy"]),
        parameters=frame["model"].map(counts),
        erased=frame["model"].str.endswith("-erased"),
    )


def difference(
    table: pd.DataFrame, first: str, second: str, preset: AccuracyPreset
) -> tuple[float, float]:
    """The test error of one variant less that of another in percentage points, and its standard error.

    Each run is a count of wrong images among the test images, √(2 p(1 − p)/n) for the difference of two
    means over n images and seeds; a difference within it says nothing.
    """
    error = table.groupby("variant")["test_error"].mean()
    images = num_test_images(preset.data, preset.num_test) * int((table["variant"] == first).sum())
    before, after = float(error[first]), float(error[second])
    return before - after, 100 * difference_error(before / 100, after / 100, images)
