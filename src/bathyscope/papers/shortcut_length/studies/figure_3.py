"""Figure 3: average norm of the weights while 2-shortcut networks of several depths train."""

from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.shortcut_length.studies.whitened_trial import WhitenedTrial, gradient_descent
from bathyscope.studies.drawing import label_axes, legend, mean_lines, panels, shades
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

_TITLES = {False: "without nonlinearities", True: "ReLUs at mid positions"}


class WeightNormPreset(Preset):
    """Settings of figure 3."""

    sources: ClassVar = {
        "data": "printed: appendix B, whitened MNIST",
        "depths": "not printed: read off the legend of the figure",
        "epochs": "not printed for this figure: 1,000, as in section 5.3",
        "lr": "not printed: ours",
        "num_train": "not printed: ours",
        "seeds": "not printed: ten",
    }
    depths: tuple[int, ...]
    epochs: int
    lr: float = 0.05
    num_train: int | None = None


def tasks(preset: WeightNormPreset) -> list[WhitenedTrial]:
    """One run a depth, with and without ReLUs, and seed."""
    return [
        gradient_descent(
            "shortcut_2",
            depth,
            epochs=preset.epochs,
            lr=preset.lr,
            relu=relu,
            data=preset.data,
            num_train=preset.num_train,
            seed=seed,
            watch=("norms",),
            watch_every=max(1, preset.epochs // 50),
        )
        for relu in (False, True)
        for depth in preset.depths
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: WeightNormPreset) -> pd.DataFrame:
    """One row per run and measured step."""
    return store.frame(tasks(preset), kind="norms", keys=("relu", "depth", "seed"))


def checks(table: pd.DataFrame, preset: WeightNormPreset) -> tuple[Check, ...]:
    """Deeper networks stay nearer to zero."""
    last = table[table["step"] == preset.epochs].groupby(["relu", "depth"])["mean_norm"].mean()
    result = []
    for relu, text in _TITLES.items():
        norms = last[relu].sort_index()
        falls = bool((norms.diff().dropna() < 0).all())
        ends = ", ".join(f"{norm:.3g} at depth {depth}" for depth, norm in norms.items())
        result.append(Check(f"{text}: the deeper, the smaller the final average norm", falls, ends))
    return tuple(result)


def draw(table: pd.DataFrame, preset: WeightNormPreset) -> Figure:
    """Average Frobenius norm over epochs, one curve per depth."""
    figure, axes = panels(2, share_y=True)
    for ax, (relu, text) in zip(axes, _TITLES.items(), strict=True):
        label_axes(ax, title=text, x="epoch", y="average Frobenius norm" if not relu else "")
        part = table[table["relu"] == relu]
        mean_lines(
            ax,
            part,
            x="step",
            y="mean_norm",
            by="depth",
            colors=shades(len(preset.depths)),
            marker=None,
        )
    legend(axes[0], title="depth")
    return figure


STUDY = Study(
    name="shortcut_length.figure_3",
    title="Average norm of the weights of 2-shortcut networks while they train",
    shows=(
        "Started near zero, deeper 2-shortcut networks reach their end with smaller weight "
        "matrices, with and without ReLUs: the solution lies nearer to zero the deeper the network."
    ),
    presets={
        "quick": WeightNormPreset(depths=(4, 8, 16, 32), epochs=400, num_train=200),
        "full": WeightNormPreset(
            data="mnist", depths=(4, 8, 16, 32, 64), epochs=1000, num_train=1000
        ),
        "printed": WeightNormPreset(
            data="mnist", depths=(4, 8, 16, 32, 64, 96), epochs=1000, num_train=1000, seeds=10
        ),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "without nonlinearities": "section 4.1 and figure 3, left: the deeper, the smaller the average norm",
        "ReLUs at mid": "section 4.1 and figure 3, right: the same with ReLUs",
    },
    draw=draw,
    notes=("The paper does not print the learning rate and the epochs of this figure.",),
)
