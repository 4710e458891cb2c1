"""Figures 3 and 4: training loss and accuracy over epochs."""

import math

import pandas as pd
from matplotlib.figure import Figure

from bathyscope import data
from bathyscope.papers.singularity.studies.trained import (
    AT_QUICK,
    CIFAR_PRESETS,
    NETWORKS,
    PRESETS,
    TrainedPreset,
    tasks,
)
from bathyscope.studies.drawing import label_axes, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store


def table(store: Store, preset: TrainedPreset) -> pd.DataFrame:
    """One row per run and step: loss and accuracy of the batch."""
    return store.frame(tasks(preset), kind="step", keys=("network", "seed"))


def checks(table: pd.DataFrame, preset: TrainedPreset) -> tuple[Check, ...]:
    """The plain network's loss does not come down, the others' does."""
    late = table[table["step"] > 0.8 * table["step"].max()]
    loss = late.groupby(["seed", "network"])["loss"].mean().unstack("network")
    largest = table.groupby("network")["loss"].max()
    worst_with_skips = loss[["resnet", "resnext"]].max(axis=1)
    # a plain network that diverged has no late loss
    times = loss.reindex(columns=["plain"])["plain"].fillna(float("inf")) / worst_with_skips
    return (
        Check(
            "PlainNet's training loss over the last fifth is above that of both others with every seed; "
            "seeds, and times the greater of theirs, the smallest",
            bool((times > 1).all()),
            f"{int((times > 1).sum())} of {len(times)}, {times.min():.4g}",
        ),
        extremely_high(float(largest["plain"]), data.entry(preset.data).num_classes),
    )


def extremely_high(loss: float, classes: int) -> Check:
    """Whether a loss is ten times that of a guess among the classes."""
    return Check(
        "largest loss that PlainNet passes is at least ten times that of guessing; the loss",
        loss >= 10 * math.log(classes),
        loss,
    )


def draw(table: pd.DataFrame, preset: TrainedPreset) -> Figure:
    """Loss, on a logarithmic scale, and accuracy, averaged over a few steps."""
    figure, (left, right) = panels(2)
    steps = int(table["step"].max())
    window = max(1, steps // 60)
    # steps that are left over at the end go to the last window: few of them would be a jump
    windows = ((table["step"] - 1) // window).clip(upper=steps // window - 1)
    shown = table.assign(step=(windows + 0.5) * window)
    shown = shown.groupby(["network", "seed", "step"], as_index=False)[["loss", "accuracy"]].mean()
    label_axes(left, title="training loss", x="step", y="cross-entropy", log="y")
    label_axes(right, title="training accuracy", x="step", y="accuracy")
    for ax, column in ((left, "loss"), (right, "accuracy")):
        mean_lines(
            ax,
            shown,
            x="step",
            y=column,
            by="network",
            order=list(NETWORKS),
            labels=NETWORKS,
            marker=None,
        )
    right.set_ylim(0, 1.02)
    legend_below(figure, right)
    return figure


def _study(number: int, data_name: str, presets: dict[str, TrainedPreset]) -> Study:
    return Study(
        name=f"singularity.figure_{number}",
        title=f"Training curves of PlainNet, ResNet and ResNeXt ({data_name})",
        shows=(
            "The training loss of the plain network is enormous and does not come down; its "
            "accuracy stays at chance. With skips both move as they should."
        ),
        presets=presets,
        tasks=tasks,
        table=table,
        checks=checks,
        decides={
            "PlainNet's training loss": "section VI-C: ResNet and ResNeXt have significantly smaller "
            "training losses than PlainNet",
            "largest loss that PlainNet": "section VI-C: the losses of PlainNet are so extremely high that "
            "the axis must be logarithmic",
        },
        draw=draw,
        notes=() if presets is PRESETS else (AT_QUICK,),
        unmet="Our plain networks stand still near the loss of guessing (2.3) rather than diverge: they are "
        "narrower, begin at a learning rate of 0.01 where the paper has 0.1, and train for fewer epochs. The "
        "favorable reading, that they stay above both others, is met.",
    )


STUDIES = (_study(3, "MNIST", PRESETS), _study(4, "CIFAR-10", CIFAR_PRESETS))
