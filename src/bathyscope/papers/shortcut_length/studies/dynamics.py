"""The runs that figures 5 and 6 look at: the Hessian's spectrum while linear networks train."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pandas as pd

from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.papers.shortcut_length.studies.whitened_trial import WhitenedTrial, gradient_descent
from bathyscope.studies.record import Check, Preset
from bathyscope.studies.store import Store

COMPARED = ("shortcut_2", "orthogonal", "xavier")
LABELS = {name: KINDS[name].label for name in COMPARED}


class DynamicsPreset(Preset):
    """Settings of figures 5 and 6."""

    sources: ClassVar = {
        "data": "printed: appendix B, whitened MNIST",
        "depth": "printed: 16",
        "epochs": "printed: 1,000, section 5.3",
        "lr": "not printed: ours",
        "points": "printed: every epoch; ours are in a geometric row",
        "seeds": "not printed: the figures show means over runs, here ten",
    }
    depth: int = 16
    epochs: int
    lr: float = 0.02
    points: int


PRESETS = {
    "quick": DynamicsPreset(depth=8, epochs=600, points=12, seeds=2),
    "full": DynamicsPreset(data="mnist", epochs=1000, points=40, seeds=3),
    "printed": DynamicsPreset(data="mnist", epochs=1000, points=60, seeds=10),
}


def tasks(preset: DynamicsPreset) -> list[WhitenedTrial]:
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


def table(store: Store, preset: DynamicsPreset) -> pd.DataFrame:
    """One row per run and measured step: loss, gradient norm, |λ| and index."""
    frame = store.frame(tasks(preset), kind="spectrum", keys=("kind", "seed"))
    return frame.assign(condition=frame["largest"] / frame["percentile"])


def at_losses(table: pd.DataFrame, column: str, *, num: int = 40) -> pd.DataFrame:
    """A column of every run that did not diverge, linearly interpolated at common losses.

    Args:
        table: of `table`.
        column: what to interpolate.
        num: how many losses, evenly spaced in the logarithm between the extremes.
    """
    runs = {key: run for key, run in _runs(table) if not _diverged(run)}
    ends = [loss for run in runs.values() for loss in (run["loss"].min(), run["loss"].max())]
    losses = np.geomspace(min(ends) * 1.0001, max(ends), num)
    rows = []
    for (kind, seed), run in runs.items():
        ordered = run.sort_values("loss")
        inside = (losses >= ordered["loss"].min()) & (losses <= ordered["loss"].max())
        result = np.interp(losses[inside], ordered["loss"], ordered[column])
        rows.append(
            pd.DataFrame({"kind": kind, "seed": seed, "loss": losses[inside], column: result})
        )
    return pd.concat(rows, ignore_index=True)


def below(table: pd.DataFrame, column: str, *, what: str) -> list[Check]:
    """Whether the 2-shortcut network has the smaller mean at every loss, against each other one."""
    means = at_losses(table, column).groupby(["kind", "loss"])[column].mean().unstack("kind")
    result = []
    for kind in COMPARED[1:]:
        both = means[["shortcut_2", kind]].dropna()
        fraction = float((both["shortcut_2"] <= both[kind]).mean())
        statement = f"{what} of the 2-shortcut network below that of {LABELS[kind]}"
        result.append(
            Check(
                f"{statement}: fraction of the losses both pass, all wanted",
                fraction == 1.0,
                fraction,
            )
        )
    return result


def diverging(table: pd.DataFrame) -> Check:
    """How many runs are left out of what is said of losses."""
    lost = pd.Series([kind for (kind, _), run in _runs(table) if _diverged(run)], dtype=object)
    counts = [f"{count} of {LABELS[kind]}" for kind, count in lost.value_counts().items()]
    return Check("runs that diverged, left out of the curves", None, ", ".join(counts) or "none")


def _runs(table: pd.DataFrame) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    yield from table.sort_values("step").groupby(["kind", "seed"], sort=False)


def _diverged(run: pd.DataFrame) -> bool:
    """Whether it ends above where it began."""
    return bool(run["loss"].iloc[-1] > run["loss"].iloc[0])
