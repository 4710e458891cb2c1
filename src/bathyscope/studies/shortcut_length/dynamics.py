"""The runs that figures 5 and 6 look at: the Hessian's spectrum while linear networks train."""

import numpy as np
import pandas as pd

from bathyscope.studies.record import Preset as StudyPreset
from bathyscope.studies.shortcut_length.networks import KINDS
from bathyscope.studies.shortcut_length.whitened_trial import WhitenedTrial, gradient_descent
from bathyscope.studies.store import Store

COMPARED = ("shortcut_2", "orthogonal", "xavier")
LABELS = {name: KINDS[name].label for name in COMPARED}


class Preset(StudyPreset):
    """Settings of figures 5 and 6."""

    depth: int = 16
    epochs: int
    lr: float = 0.02
    points: int


PRESETS = {
    "quick": Preset(epochs=800, points=16, seeds=2),
    "full": Preset(data="mnist", epochs=1000, points=40, seeds=3),
    "paper": Preset(data="mnist", epochs=1000, points=60, seeds=10),
}


def tasks(preset: Preset) -> list[WhitenedTrial]:
    """One run a network and seed; it is measured at steps in a geometric row."""
    steps = np.unique(np.geomspace(1, preset.epochs, preset.points).round().astype(int))
    return [
        gradient_descent(
            kind,
            preset.depth,
            epochs=preset.epochs,
            lr=preset.lr,
            data=preset.data,
            seed=seed,
            watch=("spectrum",),
            watch_at=tuple(int(s) for s in steps),
        )
        for kind in COMPARED
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: Preset) -> pd.DataFrame:
    """One row a run and measured step: loss, gradient norm, |λ| and index."""
    frame = store.frame(tasks(preset), kind="spectrum", keys=("kind", "seed"))
    return frame.assign(condition=frame["largest"] / frame["percentile"])


def at_losses(table: pd.DataFrame, column: str, *, num: int = 40) -> pd.DataFrame:
    """A column of every run, linearly interpolated at common losses, as the paper does.

    Args:
        table: of `table`.
        column: what to interpolate.
        num: how many losses, evenly spaced in the logarithm between the extremes.
    """
    losses = np.geomspace(table["loss"].min() * 1.0001, table["loss"].max(), num)
    rows = []
    for (kind, seed), run in table.groupby(["kind", "seed"]):
        ordered = run.sort_values("loss")
        inside = (losses >= ordered["loss"].min()) & (losses <= ordered["loss"].max())
        found = np.interp(losses[inside], ordered["loss"], ordered[column])
        rows.append(
            pd.DataFrame({"kind": kind, "seed": seed, "loss": losses[inside], column: found})
        )
    return pd.concat(rows, ignore_index=True)
