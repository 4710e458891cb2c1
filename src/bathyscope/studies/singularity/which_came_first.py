"""Which came first: gradient explosion, weight explosion, collapse or singularity?"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bathyscope.studies.drawing import colour, legend_below, named, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.record import Preset as StudyPreset
from bathyscope.studies.store import Store
from bathyscope.studies.trial import Trial

EVENTS: dict[str, str] = {
    "gradient_explosion": "gradient explosion",
    "weight_explosion": "weight explosion",
    "collapse": "collapse",
    "singularity": "singularity",
}
GRADIENT_GROWTH = 1e3
"""‖∂E/∂x‖ at some block over that at the network's end, from which on gradients explode."""
WEIGHT_GROWTH = 100.0
"""Greatest |w| of a block over that at its start, from which on weights explode."""
ALIKE = 0.99
"""Mean cosine between the samples of a block's output, from which on it has collapsed."""


class Preset(StudyPreset):
    """Settings: every combination of skip, normalisation, start and learning rate."""

    depth: int = 164
    steps: int = 32
    batch_size: int = 64
    skips: tuple[bool, ...] = (False, True)
    normalisations: tuple[bool, ...] = (True, False)
    starts: tuple[str, ...] = ("he", "orthogonal", "delta_orthogonal", "dirac")
    rates: tuple[float, ...] = (0.1, 0.003)
    num_train: int | None = None


class EventTrial(Trial):
    """A short run of one setting.

    Attributes:
        setting: what distinguishes it, in words.
    """

    setting: str


def tasks(preset: Preset) -> list[EventTrial]:
    """One run a setting and seed, measured after 0, 1, 2, 4, 8, … steps."""
    measured = tuple(2**k for k in range(preset.steps.bit_length()) if 2**k <= preset.steps)
    settings = itertools.product(
        preset.skips, preset.normalisations, preset.starts, preset.rates, range(preset.seeds)
    )
    return [
        EventTrial(
            setting=_words(skip, normalisation, start, rate),
            model=f"{'resnet' if skip else 'plain'}-{preset.depth}",
            init=start,
            normalisation=normalisation,
            data=preset.data,
            num_train=preset.num_train,
            num_test=64,
            seed=seed,
            epochs=preset.steps,
            max_steps=preset.steps,
            batch_size=preset.batch_size,
            lr=rate,
            schedule="constant",
            evaluate_every=0,
            watch=("conditions",),
            watch_at=measured,
            probe_size=64,
        )
        for skip, normalisation, start, rate, seed in settings
    ]


def _words(skip: bool, normalisation: bool, start: str, rate: float) -> str:
    return (
        f"{'residual' if skip else 'plain'}, {'BatchNorm' if normalisation else 'no norm'}, "
        f"{start.replace('_', '-')}, {rate:g}"
    )


def table(store: Store, preset: Preset) -> pd.DataFrame:
    """One row a run and event: the first measured step and block, missing where never seen."""
    rows = []
    for task in tasks(preset):
        frame = store.frame([task], kind="conditions")
        for event, (step, block) in first_events(frame).items():
            rows.append(
                {
                    "setting": task.setting,
                    "seed": task.seed,
                    "event": event,
                    "step": step,
                    "block": block,
                }
            )
    return pd.DataFrame(rows)


def first_events(frame: pd.DataFrame) -> dict[str, tuple[float, str | None]]:
    """Where and when each event is first seen in the records of a run.

    Args:
        frame: one row a measured step and block, as `conditions` writes it.

    Returns:
        Step (NaN where never) and block. Of the blocks that show it at that step, the one the
        signal reaches first: for gradients the last of the network, for the others the first.
    """
    seen: dict[str, tuple[float, str | None]] = {event: (float("nan"), None) for event in EVENTS}
    begin = frame[frame["step"] == frame["step"].min()].set_index("index")
    start_size = _largest_weight(begin)
    for _, now in frame.groupby("step"):
        now = now.set_index("index").sort_index()
        flags = {
            "gradient_explosion": _gradients_explode(now),
            "weight_explosion": _largest_weight(now) > WEIGHT_GROWTH * start_size,
            "collapse": now["representations_mean_cosine"].astype(float) > ALIKE,
            "singularity": _singular(now),
        }
        for event, shown in flags.items():
            where = np.flatnonzero(shown.to_numpy(dtype=bool))
            if np.isnan(seen[event][0]) and len(where):
                place = where[-1] if event == "gradient_explosion" else where[0]
                seen[event] = (float(now["step"].iloc[0]), str(now["block"].iloc[place]))
    return seen


def _largest_weight(frame: pd.DataFrame) -> pd.Series:
    both = frame[["weights_min", "weights_max"]].astype(float).abs()
    return both.max(axis=1)


def _gradients_explode(frame: pd.DataFrame) -> pd.Series:
    at_end = float(frame["gradients_norm_out"].astype(float).iloc[-1])
    return frame["gradients_norm_in"].astype(float) > GRADIENT_GROWTH * at_end


def _singular(frame: pd.DataFrame) -> pd.Series:
    """In the mode of samples, the matrix of the theory; a dead channel alone does not count."""
    return np.isinf(frame["representations_condition_samples"].astype(float))


def checks(table: pd.DataFrame, preset: Preset) -> tuple[Check, ...]:
    """For the plain network: did singularity come before or after the gradient exploded?"""
    found = []
    for setting, group in table.groupby("setting", sort=False):
        wide = group.pivot(index="seed", columns="event", values="step")
        after = int((wide["singularity"] > wide["gradient_explosion"]).sum())
        both = int((wide["singularity"].notna() & wide["gradient_explosion"].notna()).sum())
        shares = ", ".join(
            f"{words} {wide[event].notna().mean():.0%}{_when(wide[event])}"
            for event, words in EVENTS.items()
        )
        found.append(
            Check(
                f"{setting}: singular after the gradient exploded in {after} of {both} runs that "
                "show both; runs that show each event, and the median step",
                None,
                shares,
            )
        )
    return tuple(found)


def _when(steps: pd.Series) -> str:
    if steps.isna().all():
        return ""
    low, middle, high = steps.min(), steps.median(), steps.max()
    spread = f", {low:g} to {high:g}" if low != high else ""
    return f" (step {middle:g}{spread})"


def draw(table: pd.DataFrame, preset: Preset) -> Figure:
    """The first step of each event, setting by setting: median and range over seeds."""
    settings = list(dict.fromkeys(table["setting"]))
    figure, (ax,) = panels(width=8.4, height=1.6 + 0.42 * len(settings))
    named(ax, title="when each event is first seen", x="step", y="")
    position: dict[Any, float] = {s: -i for i, s in enumerate(settings)}
    for i, (event, words) in enumerate(EVENTS.items()):
        part = table[(table["event"] == event) & table["step"].notna()]
        steps = part.groupby("setting")["step"].agg(["median", "min", "max", "count"])
        y = np.array([position[s] - 0.18 * (i - 1.5) for s in steps.index])
        low, high = steps["median"] - steps["min"], steps["max"] - steps["median"]
        ax.errorbar(
            steps["median"],
            y,
            xerr=[low, high],
            fmt="o^sD"[i],
            ms=5,
            color=colour(i),
            label=words,
            elinewidth=1.2,
            ls="none",
        )
    ax.set_xscale("symlog", base=2, linthresh=1)
    ax.set_xlim(-0.3, preset.steps * 1.3)
    ticks = [0, *(2**k for k in range(preset.steps.bit_length()))]
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.set_yticks(list(position.values()), list(position))
    ax.set_ylim(-len(settings) + 0.4, 0.6)
    legend_below(figure, ax)
    return figure


STUDY = Study(
    name="singularity.which_came_first",
    title="Which came first: exploding gradients, exploding weights, collapse or singularity",
    shows=(
        "The paper blames singular representations for the failure of deep plain networks. This "
        "study looks at the order of events, and at what stops collapse and what stops explosion: "
        "the skip, batch normalisation, or the start."
    ),
    presets={
        "quick": Preset(normalisations=(True,), starts=("he",), rates=(0.1,), seeds=3, steps=16),
        "full": Preset(seeds=10),
        "paper": Preset(data="cifar-10", seeds=10, batch_size=128),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=(
        f"Gradients explode where their norm is {GRADIENT_GROWTH:g} times that at the network's end, "
        f"weights where the greatest is {WEIGHT_GROWTH:g} times what it was, a representation has "
        f"collapsed where the mean cosine between samples is above {ALIKE:g}, and is singular where "
        "the matrix of features × samples has an infinite condition number. Measured after 0, 1, 2, "
        "4, … steps.",
    ),
)
