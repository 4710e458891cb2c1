"""Figure 5: test error of ResNet and ProcResNet over the number of parameters."""

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.norm_preservation.studies.accuracy import (
    AccuracyPreset,
    difference,
    errors,
    trials,
)
from bathyscope.papers.norm_preservation.studies.architectures import VARIANTS
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

tasks = partial(trials, variants=("resnet", "procresnet"))
_LABELS = {name: VARIANTS[name].label for name in ("resnet", "procresnet")}


def table(store: Store, preset: AccuracyPreset) -> pd.DataFrame:
    """One row per run."""
    return errors(store, tasks(preset))


def checks(table: pd.DataFrame, preset: AccuracyPreset) -> tuple[Check, ...]:
    """At like numbers of parameters ProcResNet errs less."""
    gains = [
        difference(part, "resnet", "procresnet", preset)
        for _, part in table.groupby(["data", "depth"])
    ]
    better = sum(gain > error for gain, error in gains)
    text = ", ".join(f"{gain:.2f} ± {error:.2f}" for gain, error in gains)
    return (
        Check(
            "ProcResNet errs less than the ResNet of like size, by more than the standard error; depths "
            "at which it does, and percentage points",
            better == len(gains),
            f"{better} of {len(gains)} ({text})",
        ),
    )


def draw(table: pd.DataFrame, preset: AccuracyPreset) -> Figure:
    """Error over parameters."""
    figure, (ax,) = panels(width=5.6, height=3.6)
    label_axes(
        ax,
        title=f"Parameter efficiency on {preset.data}",
        x="parameters",
        y="test error (%)",
        log="x",
    )
    mean_lines(ax, table, x="parameters", y="test_error", by="variant", labels=_LABELS)
    legend(ax)
    return figure


STUDY = Study(
    name="norm_preservation.figure_5",
    title="Test error of ResNet and ProcResNet over the number of parameters",
    shows=(
        "ProcResNet reaches a given error with fewer parameters: at 2.8 million it errs no more "
        "than a ResNet of 10.3 million."
    ),
    presets={
        "quick": AccuracyPreset(
            depths=(11, 20, 38), epochs=6, lr=0.05, batch_size=64, augmented=False, num_train=800
        ),
        "full": AccuracyPreset(
            data="cifar-10", depths=(11, 20, 38), epochs=5, num_train=5000, num_test=2000, seeds=3
        ),
        "cited": AccuracyPreset(data="cifar-10", depths=(20, 83, 164, 272, 1001), epochs=300),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "ProcResNet errs": "section 4.3: ProcResNet reaches an error with about a fourth of the parameters"
    },
    draw=draw,
    unmet="The networks have 11 to 38 layers and five epochs; the printed gain is of 274 to 1,001 layers, "
    "fully trained.",
    notes=("The runs of a depth that table 2 takes too are shared with it.",),
)
