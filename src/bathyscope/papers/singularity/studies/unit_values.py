"""Figures 5 to 10 and A1 to A6: values of units and weights, in the first and in a late block."""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.singularity.studies.trained import (
    AT_QUICK,
    CIFAR_PRESETS,
    NETWORKS,
    PRESETS,
    TrainedPreset,
    tasks,
)
from bathyscope.studies.drawing import color, label_axes, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

# number: (network, what) for MNIST; the same in the same order on CIFAR-10 in the appendix
_FIGURES = {
    5: ("plain", "activations"),
    6: ("plain", "weights"),
    7: ("resnet", "activations"),
    8: ("resnet", "weights"),
    9: ("resnext", "activations"),
    10: ("resnext", "weights"),
}
_CHAOTIC = 100.0
"""Range above which values count as chaotic; the paper reports millions against about 6."""


def table(store: Store, preset: TrainedPreset, *, network: str, what: str) -> pd.DataFrame:
    """One row per run and place: range and histogram of the values after training."""
    frame = store.frame(tasks(preset, networks=(network,)), kind="values", keys=("network", "seed"))
    frame = frame[frame["what"] == what].reset_index(drop=True)
    return frame.assign(range=frame["high"] - frame["low"])


def checks(table: pd.DataFrame, preset: TrainedPreset, *, network: str) -> tuple[Check, ...]:
    """Chaotic in the plain network, ordinary in the others."""
    first = table[table["place"] == "first"]["range"]
    late = float(table[table["place"] == "late"]["range"].mean())
    chaotic = network == "plain"
    right = first > _CHAOTIC if chaotic else first <= _CHAOTIC
    return (
        Check(
            f"range in the first block {'above' if chaotic else 'at most'} {_CHAOTIC:g} with every "
            "seed; seeds, and mean range",
            bool(right.all()),
            f"{int(right.sum())} of {len(first)}, {first.mean():.4g}",
        ),
        Check("range in the late block, mean over the seeds", None, late),
    )


def draw(table: pd.DataFrame, preset: TrainedPreset) -> Figure:
    """Histograms of all seeds' runs, one over the other."""
    figure, axes = panels(2)
    for ax, location in zip(axes, ("first", "late"), strict=True):
        part = table[table["place"] == location].sort_values("seed")
        block = part["block"].iloc[0]
        label_axes(ax, title=f"{location} block ({block})", x="value", y="count", log="y")
        for _, row in part.iterrows():
            counts = np.asarray(row["counts"], dtype=float)
            edges = np.linspace(row["low"], row["high"], len(counts) + 1)
            if row["high"] == row["low"]:
                edges = np.array([row["low"] - 0.5, row["low"] + 0.5])
            shade = color(0 if location == "first" else 1)
            ax.stairs(counts, edges, fill=True, color=shade, alpha=0.75 / len(part))
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
    return figure


def _study(
    label: str, network: str, what: str, data: str, presets: dict[str, TrainedPreset]
) -> Study:
    name = NETWORKS[network]
    return Study(
        name=f"singularity.figure_{label}",
        title=f"{name}: {what} in the first and in a late block ({data})",
        shows=(
            f"After training, {what} of the plain network's first layer range over millions, while "
            "layer 160 looks ordinary; in ResNet and ResNeXt both do."
        ),
        presets=presets,
        tasks=partial(tasks, networks=(network,)),
        table=partial(table, network=network, what=what),
        checks=partial(checks, network=network),
        decides={
            "range in the first block": "section VI-C: values of the first layer range over 1.7 million "
            "(activations) and 400,000 (weights) in PlainNet, over about 6 with skips"
        },
        draw=draw,
        notes=(
            "The late block is the one that holds the paper's layer 160 of 164.",
            *(() if presets is PRESETS else (AT_QUICK,)),
        ),
    )


STUDIES = tuple(
    _study(str(number), network, what, "MNIST", PRESETS)
    for number, (network, what) in _FIGURES.items()
) + tuple(
    _study(f"a{position}", network, what, "CIFAR-10", CIFAR_PRESETS)
    for position, (network, what) in enumerate(_FIGURES.values(), start=1)
)
