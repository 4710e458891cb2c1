"""Figure 2: average norm of the weights of ResNets of several depths while they train."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies.convolutional import ConvolutionPreset, tasks
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels, shades
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store


def table(store: Store, preset: ConvolutionPreset) -> pd.DataFrame:
    """One row per run and measured step."""
    return store.frame(tasks(preset), kind="norms", keys=("depth", "seed"))


def checks(table: pd.DataFrame, preset: ConvolutionPreset) -> tuple[Check, ...]:
    """Deeper networks end with smaller weights."""
    last = table[table["step"] == table["step"].max()]
    by_seed = last.pivot(index="seed", columns="depth", values="mean_norm")
    falls = (by_seed.diff(axis=1).iloc[:, 1:] < 0).all(axis=1)
    norms = by_seed.mean()
    text = ", ".join(f"{norm:.4g} at depth {depth}" for depth, norm in norms.items())
    moved = table[table["step"] == 0].groupby("depth")["mean_norm"].mean()
    change = ", ".join(
        f"{norms[depth] - moved[depth]:+.3g} at depth {depth}" for depth in norms.index
    )
    return (
        Check(
            "the deeper, the smaller the final average Frobenius norm, with every seed; seeds, and means",
            bool(falls.all()),
            f"{int(falls.sum())} of {len(falls)}: {text}",
        ),
        Check("change of that norm over training", None, change),
    )


def draw(table: pd.DataFrame, preset: ConvolutionPreset) -> Figure:
    """Average Frobenius norm over steps, one curve per depth."""
    figure, (ax,) = panels(width=5.8, height=3.6)
    label_axes(
        ax, title=f"weights of ResNets on {preset.data}", x="step", y="average Frobenius norm"
    )
    mean_lines(
        ax,
        table,
        x="step",
        y="mean_norm",
        by="depth",
        colors=shades(len(preset.depths)),
        marker=None,
    )
    legend(ax, title="depth")
    return figure


STUDY = Study(
    name="shortcut_length.figure_2",
    title="Average norm of the weights of ResNets of several depths while they train",
    shows="All along training, the deeper a ResNet, the smaller its weights are in the mean.",
    presets={
        "quick": ConvolutionPreset(
            depths=(8, 14, 26, 50), epochs=5, lr=0.05, batch_size=64, milestones=(4,)
        ),
        "full": ConvolutionPreset(
            data="cifar-10",
            depths=(8, 20, 38),
            epochs=6,
            milestones=(4, 5),
            num_train=3000,
            num_test=500,
            seeds=3,
        ),
        "printed": ConvolutionPreset(
            data="cifar-10",
            depths=(20, 56, 110, 218),
            epochs=200,
            batch_size=32,
            nesterov=True,
            augmented=True,
        ),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "the deeper": "section 4.1: the deeper a ResNet, the smaller the average Frobenius norm of its "
        "weights, while it trains and at the end"
    },
    draw=draw,
    unmet="A few epochs do not move weights far from the start, where deeper networks have larger norms.",
    notes=(
        "At their start deeper networks have the slightly larger mean norm (7.5, 8.0 and 8.15 at depths "
        "8, 20 and 38): the first and the last layer, whose weights are smaller, are fewer among more. "
        "Reduced runs show the beginning of the difference that long training with weight decay makes.",
    ),
)
