"""Figure 9: errors of ResNets with shortcuts of length 1 to 4 at equal parameters, over depth."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies.convolutional import ConvolutionPreset, tasks
from bathyscope.studies.drawing import label_axes, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.sampling import difference_error, num_test_images
from bathyscope.studies.store import Store


def table(store: Store, preset: ConvolutionPreset) -> pd.DataFrame:
    """One row per run: errors in percent after the last epoch, and the number of parameters."""
    runs = tasks(preset)
    frame = store.endings(runs, keys=("model", "depth", "length", "seed"))
    counts = {run.model: run.num_parameters() for run in runs}
    return frame.assign(
        test_error=100 * (1 - frame["test_accuracy"]),
        train_error=100 * (1 - frame["train_accuracy"]),
        parameters=frame["model"].map(counts),
    )


def checks(table: pd.DataFrame, preset: ConvolutionPreset) -> tuple[Check, ...]:
    """Length 2 is best at the largest depth, at equal parameters."""
    equal = int(table.groupby("depth")["parameters"].nunique().max())
    deepest = table[table["depth"] == table["depth"].max()]
    errors = deepest.groupby("length")["test_error"].mean() / 100
    text = ", ".join(f"{100 * error:.3g} % with {length}" for length, error in errors.items())
    others = float(errors.drop(2).min())
    images = num_test_images(preset.data, preset.num_test) * int((deepest["length"] == 2).sum())
    margin = difference_error(float(errors[2]), others, images)
    return (
        Check(
            "all lengths have the same parameters at a depth; different counts", equal == 1, equal
        ),
        Check(
            "at the largest depth shortcuts of length 2 give the smallest test error, by more than the "
            "standard error; errors, and standard error of a difference in percentage points",
            others - float(errors[2]) > margin,
            f"{text}; {100 * margin:.2g}",
        ),
        _only_two_gains(table, 100 * margin),
    )


def _only_two_gains(table: pd.DataFrame, margin: float) -> Check:
    """From the second largest depth to the largest; not judged where there is one depth."""
    errors = table.pivot_table(index="length", columns="depth", values="test_error")
    if errors.shape[1] < 2:
        return Check(_GAINS, None, "one depth alone")
    gains = errors.iloc[:, -2] - errors.iloc[:, -1]
    return only_two_gains({int(str(n)): float(gain) for n, gain in gains.items()}, margin)


_GAINS = (
    "shortcuts of length 2 gain from the last step in depth, by more than the standard error, and no others; "
    "percentage points of each length"
)


def only_two_gains(gains: Mapping[int, float], margin: float) -> Check:
    """Whether the error falls with length 2 alone; gains and their standard error in percentage points."""
    others = {length: gain for length, gain in gains.items() if length != 2}
    text = ", ".join(f"{gain:.2g} with {length}" for length, gain in others.items())
    return Check(
        _GAINS,
        gains[2] > margin and max(others.values()) <= 0,
        f"{gains[2]:.2g} ± {margin:.2g} with 2, {text}",
    )


def draw(table: pd.DataFrame, preset: ConvolutionPreset) -> Figure:
    """Test error over depth, one curve a length."""
    figure, axes = panels(2, share_y=False)
    for ax, half in zip(axes, ("test", "train"), strict=True):
        label_axes(ax, title=f"{half} error on {preset.data}", x="depth", y="error (%)")
        labels = {n: f"shortcuts of length {n}" for n in preset.lengths}
        mean_lines(ax, table, x="depth", y=f"{half}_error", by="length", labels=labels)
        ax.set_xticks(preset.depths)
    legend_below(figure, axes[0])
    return figure


STUDY = Study(
    name="shortcut_length.figure_9",
    title="Errors of ResNets with shortcuts of length 1 to 4 at equal parameters",
    shows=(
        "On CIFAR-10, in networks of more than 400 layers, only shortcuts of length 2 gain from "
        "further depth; the others get worse."
    ),
    presets={
        "quick": ConvolutionPreset(
            lengths=(1, 2, 3, 4), depths=(38,), epochs=4, lr=0.05, batch_size=64, milestones=(3,)
        ),
        "full": ConvolutionPreset(
            data="cifar-10",
            lengths=(1, 2, 3, 4),
            depths=(38, 74),
            epochs=4,
            milestones=(3,),
            num_train=3000,
            num_test=1000,
            seeds=3,
        ),
        "cited": ConvolutionPreset(
            data="cifar-10",
            lengths=(1, 2, 3, 4),
            depths=(38, 110, 218, 434, 578),
            epochs=164,
            batch_size=32,
            nesterov=True,
            augmented=True,
            seeds=10,
        ),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "all lengths": "section 5.3.2: the total number of parameters is kept fixed",
        "at the largest depth": "figure 9: length 2 has the smallest error in the deepest networks",
        "shortcuts of length 2 gain": "section 5.3.2: above 400 layers length 2 alone gains from depth, "
        "the others get worse",
    },
    draw=draw,
    undecided=("anything above 400 layers, where the sentence is about: ours have 74 at most",),
    unmet="From 38 to 74 layers no length gains, by differences of the size of the error; four epochs on "
    "3,000 images are too few to tell.",
)
