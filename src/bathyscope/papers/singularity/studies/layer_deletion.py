"""Layer deletion: what is lost when one block's branch is dropped from a trained network."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.singularity.studies.trained import NETWORKS, PRESETS, TrainedPreset, tasks
from bathyscope.studies.drawing import color, label_axes, legend, over_seeds, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store


def table(store: Store, preset: TrainedPreset) -> pd.DataFrame:
    """One row per run and block: the loss, and its change without the block."""
    frame = store.frame(tasks(preset), kind="deletion", keys=("network", "seed"))
    return frame.assign(loss_change=frame["loss_change"].astype(float))


def checks(table: pd.DataFrame, preset: TrainedPreset) -> tuple[Check, ...]:
    """No single block matters much where there are skips."""
    inner = table[~table["transition"]]
    medians = inner.groupby("network")["loss_change"].median()
    result = []
    for network in ("resnet", "resnext"):
        median = float(medians[network])
        result.append(
            Check(
                f"{NETWORKS[network]}: the median block that keeps the dimension costs under 0.1 "
                "in loss when dropped; median change",
                median < 0.1,
                median,
            )
        )
    changes = table[table["network"] == "plain"]["loss_change"]
    result.append(
        Check("PlainNet, which has learned nothing: median change", None, float(changes.median()))
    )
    return tuple(result)


def draw(table: pd.DataFrame, preset: TrainedPreset) -> Figure:
    """Change of the loss over the place of the dropped block, median and range over seeds."""
    figure, (ax,) = panels(width=6.2, height=3.6)
    label_axes(
        ax,
        title="change of the training loss when one block is dropped",
        x="block, as a fraction of the depth",
        y="loss without it − loss",
    )
    for i, (network, label) in enumerate(NETWORKS.items()):
        part = table[table["network"] == network]
        runs = over_seeds(part, by="index", column="loss_change")
        location = (runs["index"] + 1) / max(1, len(runs))
        ax.fill_between(location, runs["low"], runs["high"], color=color(i), alpha=0.2, lw=0)
        ax.plot(location, runs["middle"], color=color(i), lw=1.0, marker="o", ms=2.5, label=label)
        moves = runs["index"].isin(part[part["transition"]]["index"])
        ax.plot(location[moves], runs["middle"][moves], "s", color=color(i), ms=6, mfc="none")
    ax.plot([], [], "s", color="0.3", ms=6, mfc="none", label="changes dimension")
    ax.set_yscale("symlog", linthresh=0.1)
    legend(ax)
    return figure


STUDY = Study(
    name="singularity.layer_deletion",
    title="What is lost when one block is dropped from a trained network",
    shows=(
        "A residual network hardly notices the loss of one block, for its skips carry the "
        "representation past it; most is lost with blocks that change the dimension."
    ),
    presets=PRESETS,
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "ResNet: the median": "section IV: dropping a block of a residual network costs little, for the "
        "skip carries the representation past it",
        "ResNeXt: the median": "section IV: the same of the network with aggregated branches",
    },
    draw=draw,
    unmet="Of ResNeXt's median block the loss rises by 0.147 where 0.1 was set as the limit, by us: the "
    "paper prints no number.",
    notes=("Measured in training mode on a fixed batch; the runs are those of table I.",),
)
