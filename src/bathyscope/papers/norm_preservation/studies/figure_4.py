"""Figure 4: loss and error of three architectures while they train."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.norm_preservation.studies.architectures import (
    MAIN,
    PRESETS,
    VARIANTS,
    ArchitecturePreset,
    tasks,
)
from bathyscope.studies.drawing import color, label_axes, legend, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store


def table(store: Store, preset: ArchitecturePreset) -> pd.DataFrame:
    """One row per run and epoch: losses, errors and generalization gap in percent."""
    frame = store.frame(tasks(preset), kind="epoch", keys=("variant", "depth", "seed"))
    return frame.assign(
        train_error=100 * (1 - frame["train_accuracy"]),
        test_error=100 * (1 - frame["test_accuracy"]),
        gap=100 * frame["accuracy_gap"],
    )


def checks(table: pd.DataFrame, preset: ArchitecturePreset) -> tuple[Check, ...]:
    """Skips let deep networks train; plain ones fall behind."""
    last = table.groupby(["variant", "depth", "seed"]).last()
    loss = last.groupby(["variant", "depth"])["train_loss"].mean().unstack("depth")
    deepest = last["train_loss"].xs(loss.columns.max(), level="depth").unstack("variant")
    result = []
    for name in MAIN[1:]:
        times = deepest["plain"] / deepest[name]
        result.append(
            Check(
                f"at the largest depth {VARIANTS[name].label} ends with a smaller training loss "
                "than Plain, with every seed; seeds, and times smaller in the mean",
                bool((times > 1).all()),
                f"{int((times > 1).sum())} of {len(times)}, {times.mean():.3g}",
            )
        )
    result += [
        Check(
            f"{VARIANTS[name].label}: training loss at the end, by depth",
            None,
            ", ".join(f"{value:.3g} at {depth}" for depth, value in loss.loc[name].items()),
        )
        for name in MAIN
    ]
    steadier = _fluctuation(table, "procresnet") < _fluctuation(table, "resnet")
    ratio = _fluctuation(table, "procresnet").mean() / _fluctuation(table, "resnet").mean()
    result.append(
        Check(
            "ProcResNet's test error fluctuates less from epoch to epoch than ResNet's at every depth "
            "and seed, by the mean absolute change over the second half; pairs of runs, and ratio of "
            "the means",
            bool(steadier.all()),
            f"{int(steadier.sum())} of {len(steadier)}, {ratio:.3g}",
        )
    )
    return tuple(result)


def _fluctuation(table: pd.DataFrame, variant: str) -> pd.Series:
    """The mean absolute change of the test error from epoch to epoch, for every depth and seed."""
    part = table[table["variant"] == variant]
    changes = part.groupby(["depth", "seed"])["test_error"].diff().abs()
    late = part.assign(change=changes)[part["epoch"] >= part["epoch"].max() / 2]
    return late.groupby(["depth", "seed"])["change"].mean()


def draw(table: pd.DataFrame, preset: ArchitecturePreset) -> Figure:
    """Loss on the left axis, error on the right; dotted for training, solid for test."""
    figure, axes = panels(
        len(MAIN), len(preset.depths), width=3.5, height=2.3, share_x=True, share_y=True
    )
    shown = table.groupby(["variant", "depth", "epoch"], as_index=False).mean(numeric_only=True)
    for location, ax in enumerate(axes):
        depth, name = preset.depths[location // len(MAIN)], MAIN[location % len(MAIN)]
        first, last = location % len(MAIN) == 0, location // len(MAIN) == len(preset.depths) - 1
        title = f"{VARIANTS[name].label}, depth {depth + VARIANTS[name].added}"
        label_axes(ax, title=title, x="epoch" if last else "", y="loss" if first else "", log="y")
        part = shown[(shown["variant"] == name) & (shown["depth"] == depth)]
        other = ax.twinx()
        other.spines[["top"]].set_visible(False)
        other.set_ylim(0, 100)
        other.tick_params(labelsize=8, colors=color(0))
        if location % len(MAIN) == len(MAIN) - 1:
            other.set_ylabel("error (%)", color=color(0), size=9)
        else:
            other.set_yticklabels([])
        for half, style in (("train", ":"), ("test", "-")):
            ax.plot(part["epoch"] + 1, part[f"{half}_loss"], color="0.15", ls=style, lw=1.3)
            other.plot(part["epoch"] + 1, part[f"{half}_error"], color=color(0), ls=style, lw=1.3)
        ax.set_ylim(1e-2, 1e3)
    axes[0].plot([], [], color="0.15", ls=":", label="training")
    axes[0].plot([], [], color="0.15", ls="-", label="test")
    legend(axes[0], location="upper right")
    return figure


STUDY = Study(
    name="norm_preservation.figure_4",
    title="Loss and error of Plain, ResNet and ProcResNet while they train",
    shows=(
        "With skips, training loss and error fall as layers are added; plain networks become "
        "unstable. The test error of ProcResNet fluctuates less than that of ResNet."
    ),
    presets=PRESETS,
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "at the largest depth ResNet": "section 4.2: unlike in plain networks, training losses fall with "
        "depth",
        "at the largest depth ProcResNet": "section 4.2: unlike in plain networks, training losses fall "
        "with depth",
        "ProcResNet's test error": "section 4.2: the fluctuations of the test error are smaller in "
        "ProcResNet",
    },
    draw=draw,
    unmet="Fluctuations of a test error over a few epochs of 1,000 images are mostly those of sampling.",
    notes=(
        "The runs are those of figure 3. Losses are cut at 1000 in the figure, not in the table.",
    ),
)
