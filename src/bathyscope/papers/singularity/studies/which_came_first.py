"""Which came first: gradient explosion, weight explosion, collapse or singularity?"""

import itertools
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.singularity.studies.events import EVENTS, MEANING, first_events
from bathyscope.papers.singularity.studies.watches import events
from bathyscope.studies.drawing import matrix
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.studies.trial import TrainingTask

_KEYS = ("skip", "normalized", "start", "lr")


class EventPreset(Preset):
    """Settings: every combination of skip, normalization, start and learning rate."""

    depth: int = 164
    steps: int = 16
    batch_size: int = 64
    skips: tuple[bool, ...] = (False, True)
    normalizations: tuple[bool, ...] = (True, False)
    starts: tuple[str, ...] = ("he", "orthogonal", "delta_orthogonal", "dirac")
    rates: tuple[float, ...] = (0.1, 0.003)
    num_train: int | None = None


class EventTrial(TrainingTask):
    """A short run of one setting.

    Attributes:
        skip: a residual network, in place of a plain one.
    """

    watches: ClassVar = {"events": events}

    skip: bool


def tasks(preset: EventPreset) -> list[EventTrial]:
    """One run a setting and seed, measured after 0, 1, 2, 4, 8, … steps."""
    measured = tuple(2**k for k in range(preset.steps.bit_length()) if 2**k <= preset.steps)
    settings = itertools.product(
        preset.skips, preset.normalizations, preset.starts, preset.rates, range(preset.seeds)
    )
    return [
        preset.task(
            EventTrial,
            model=f"{'resnet' if skip else 'plain'}-{preset.depth}",
            skip=skip,
            init=start,
            normalization=normalization,
            num_test=64,
            seed=seed,
            epochs=preset.steps,
            max_steps=preset.steps,
            lr=rate,
            schedule="constant",
            evaluate_every=0,
            watch=("events",),
            watch_at=measured,
            probe_size=preset.batch_size,
        )
        for skip, normalization, start, rate, seed in settings
    ]


def table(store: Store, preset: EventPreset) -> pd.DataFrame:
    """One row per run and event: the first measured step and block, missing where never seen."""
    rows = []
    for task in tasks(preset):
        frame = store.frame([task], kind="events")
        ending = store.endings([task]).iloc[0].to_dict()
        for event, (step, block) in first_events(frame, ending=ending).items():
            rows.append(
                {
                    "skip": "residual" if task.skip else "plain",
                    "normalized": "BatchNorm" if task.normalization else "no norm",
                    "start": str(task.init).replace("_", "-"),
                    "lr": task.lr,
                    "seed": task.seed,
                    "event": event,
                    "step": step,
                    "block": block,
                }
            )
    return pd.DataFrame(rows)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a setting, one column an event: runs that show it, median step and its range."""
    wide = table.assign(setting=table[list(_KEYS)].astype(str).agg(", ".join, axis=1))
    settings, columns = list(dict.fromkeys(wide["setting"])), list(EVENTS)
    cells = wide.groupby(["setting", "event"])["step"].agg(_cell).unstack()
    return cells.loc[settings, columns].rename(columns=EVENTS)


def _cell(steps: pd.Series) -> str:
    seen = steps.dropna()
    if seen.empty:
        return f"0/{len(steps)}"
    low, middle, high = seen.min(), seen.median(), seen.max()
    spread = f" ({low:g} to {high:g})" if low != high else ""
    return f"{len(seen)}/{len(steps)}, step {middle:g}{spread}"


def _fraction(cell: str) -> float:
    seen, runs = cell.partition(",")[0].split("/")
    return int(seen) / int(runs)


def checks(table: pd.DataFrame, preset: EventPreset) -> tuple[Check, ...]:
    """Whether singularity comes first and skips prevent it, and by what each event is stopped."""
    runs = table.pivot(index=[*_KEYS, "seed"], columns="event", values="step").reset_index()
    both = runs[runs["singularity"].notna() & runs["gradient_explosion"].notna()]
    lead = both["gradient_explosion"] - both["singularity"]
    result = [
        Check(
            "representations become singular before gradients explode, as the paper's account has it, "
            "in every run that shows both; runs in which singularity is seen earlier, at the same "
            "measurement, later",
            bool((lead > 0).all()) if len(lead) else None,
            f"{(lead > 0).sum()}, {(lead == 0).sum()}, {(lead < 0).sum()}",
        )
    ]
    with_skips = runs[(runs["skip"] == "residual") & (runs["normalized"] == "BatchNorm")]
    count = int(with_skips["singularity"].notna().sum())
    result.append(
        Check(
            "no residual network with BatchNorm becomes singular; runs that do",
            count == 0 if len(with_skips) else None,
            f"{count} of {len(with_skips)}",
        )
    )
    for event, text in EVENTS.items():
        fractions = ", ".join(
            f"{skip} with {normalized} {group[event].notna().mean():.0%} "
            f"({(group[event] == 0).mean():.0%} at the start)"
            for (skip, normalized), group in runs.groupby(["skip", "normalized"], sort=False)
        )
        result.append(Check(f"{text}: fraction of the runs that show it", None, fractions))
    return tuple(result)


def draw(table: pd.DataFrame, preset: EventPreset) -> Figure:
    """Setting by setting: how many runs show each event, and when; the darker the more."""
    cells = summary(table)
    fraction = cells.map(_fraction)
    return matrix(
        cells,
        fraction,
        title=f"runs that show each event, and the first step (median, range), {preset.depth} "
        f"layers on {preset.data}",
    )


STUDY = Study(
    name="singularity.which_came_first",
    title="Which came first: exploding gradients, exploding weights, collapse or singularity",
    shows=(
        "The paper blames singular representations for the failure of deep plain networks. This "
        "study looks at the order of events, and at what stops collapse and what stops explosion: "
        "the skip, batch normalization, or the start."
    ),
    presets={
        "quick": EventPreset(
            depth=110, batch_size=32, normalizations=(True,), starts=("he",), rates=(0.1,), seeds=2
        ),
        # less deep, where the order of events is the same: 320 runs in about 20 minutes
        "full": EventPreset(depth=110, batch_size=32, seeds=10),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "representations become singular": "sections IV and VI-C: extreme activations and weights stem "
        "from singular representations",
        "no residual network": "remarks 2 and 3: representations of networks with skips do not become "
        "singular",
    },
    draw=draw,
    unmet="40 of the 60 residual runs that become singular have Dirac or delta-orthogonal starts, whose "
    "kernels look at one pixel of 8 × 8 images that shrink to 2 × 2, fewer pixels than samples; "
    "larger images may differ. The other 20 have He and orthogonal starts at a learning rate of "
    "0.1; at 0.003 none becomes singular.",
    notes=(MEANING,),
)
