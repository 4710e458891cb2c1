"""Figures 11 to 13: condition numbers of weights and of hidden representations, block by block."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.singularity.studies import imagenet_form
from bathyscope.papers.singularity.studies.trained import (
    AT_QUICK,
    CIFAR_PRESETS,
    HUNDRED_PRESETS,
    NETWORKS,
    PRESETS,
    PRINTED,
    QUICK,
    TrainedPreset,
    on,
    tasks,
)
from bathyscope.studies.drawing import color, label_axes, legend, over_seeds, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store


def table(store: Store, preset: TrainedPreset, *, of: str) -> pd.DataFrame:
    """One row per run and block after training: the condition number of every mode.

    `largest` is the aggregate over the modes of the HOSVD: infinite where the tensor is singular
    in one of them, missing where numbers are non-finite. `condition` is what is judged and drawn:
    for representations the mode of samples, which is the matrix H of the theory (features ×
    samples), for weights the largest.
    """
    frame = store.frame(tasks(preset), kind="conditions", keys=("network", "data", "seed"))
    last = frame.groupby(["network", "data", "seed"])["step"].transform("max")
    frame = frame[frame["step"] == last]
    prefix = f"{of}_condition_"
    modes = [c for c in frame if c.startswith(prefix) and not c.endswith("operator")]
    result = frame[["network", "data", "seed", "step", "index", "block", *modes]].copy()
    result.columns = pd.Index([c.removeprefix(prefix) for c in result.columns])
    names = [mode.removeprefix(prefix) for mode in modes]
    result["largest"] = result[names].astype(float).max(axis=1, skipna=False)
    result["condition"] = result["samples" if of == "representations" else "largest"].astype(float)
    return result.reset_index(drop=True)


def singular(condition: pd.Series) -> pd.Series:
    """Whether each is infinite, or not a number at all."""
    return ~np.isfinite(condition.astype(float))


def singular_from(table: pd.DataFrame, network: str) -> float | None:
    """The fraction of the depth from which on every block is singular, averaged over runs."""
    starts = []
    for _, run in table[table["network"] == network].groupby(["data", "seed"]):
        flags = singular(run.sort_values("index")["condition"]).to_numpy()
        if not flags[-1]:
            return None
        regular = np.flatnonzero(~flags)
        starts.append((regular[-1] + 1 if len(regular) else 0) / len(flags))
    return float(np.mean(starts))


def representation_checks(table: pd.DataFrame, preset: TrainedPreset) -> tuple[Check, ...]:
    """Figure 13: infinite in the plain network from some block on, never in the others."""
    start = singular_from(table, "plain")
    result = [
        Check(
            "PlainNet: infinite condition numbers from some block on; the fraction of the depth "
            "where they begin",
            start is not None,
            "none" if start is None else start,
        )
    ]
    for network in ("resnet", "resnext"):
        part = table[table["network"] == network]
        count = int(singular(part["condition"]).sum())
        result.append(
            Check(
                f"{NETWORKS[network]}: no infinite condition number; blocks that have one",
                count == 0,
                f"{count} of {len(part)}",
            )
        )
    result.append(_smaller_with_branches(table))
    counts = {n: int(singular(g["largest"]).sum()) for n, g in table.groupby("network")}
    text = ", ".join(f"{label} {counts[network]}" for network, label in NETWORKS.items())
    result.append(
        Check("blocks that are singular in any mode; one dead channel is enough", None, text)
    )
    return tuple(result)


def _smaller_with_branches(table: pd.DataFrame) -> Check:
    """ResNeXt's condition numbers against ResNet's, by the median block of every run."""
    medians = table.groupby(["data", "seed", "network"])["condition"].median().unstack("network")
    ratio = medians["resnext"] / medians["resnet"]
    return Check(
        "ResNeXt's representations have smaller condition numbers than ResNet's, by the median block of "
        "every run; runs, and ratio, the largest",
        bool((ratio < 1).all()),
        f"{int((ratio < 1).sum())} of {len(ratio)}, {ratio.max():.4g}",
    )


def weight_checks(table: pd.DataFrame, preset: TrainedPreset) -> tuple[Check, ...]:
    """Figures 11 and 12: small condition numbers with skips, great ones without."""
    medians = table.groupby(["data", "seed", "network"])["condition"].median().unstack("network")
    times = medians["plain"] / medians[["resnet", "resnext"]].max(axis=1)
    fractions = {
        network: float(singular(table[table["network"] == network]["condition"]).mean())
        for network in NETWORKS
    }
    return (
        Check(
            "PlainNet's weights have greater condition numbers than those of both others, by the median "
            "block of every run; runs, and times, the smallest",
            bool((times > 1).all()),
            f"{int((times > 1).sum())} of {len(times)}, {times.min():.4g}",
        ),
        Check(
            "fraction of blocks with singular weights",
            None,
            ", ".join(f"{NETWORKS[n]} {fraction:.0%}" for n, fraction in fractions.items()),
        ),
    )


def draw(table: pd.DataFrame, preset: TrainedPreset, *, of: str) -> Figure:
    """Condition number over depth, median and range over seeds; a cross at the top where it is infinite."""
    sets = [data for data in (preset.data, preset.also) if data is not None]
    figure, axes = panels(len(sets), width=5.4 if len(sets) == 1 else 4.4)
    for ax, data in zip(axes, sets, strict=True):
        label_axes(
            ax,
            title=f"{of} after training on {data}",
            x="block, as a fraction of the depth",
            y="condition number",
            log="y",
        )
        shown = table[table["data"] == data]
        finite = shown["condition"][~singular(shown["condition"])].astype(float)
        top = 10 ** (np.log10(finite.max() if len(finite) else 10.0) * 1.1)
        for i, (network, label) in enumerate(NETWORKS.items()):
            runs = over_seeds(shown[shown["network"] == network], by="index", column="condition")
            location = (runs["index"] + 1) / max(1, len(runs))
            ax.fill_between(location, runs["low"], runs["high"], color=color(i), alpha=0.2, lw=0)
            ax.plot(location, runs["middle"], color=color(i), lw=1.4, label=label)
            broken = runs["missing"] > 0
            ax.plot(
                location[broken],
                np.full(int(broken.sum()), top * 1.6**i),
                "x",
                color=color(i),
                ms=3.5,
                mew=1,
            )
        ax.plot([], [], "x", color="0.3", ms=4, label="infinite with a seed or more")
    legend(axes[0])
    return figure


def _study(
    number: str, of: str, title: str, shows: str, presets: Mapping[str, TrainedPreset]
) -> Study:
    return Study(
        name=f"singularity.figure_{number}",
        title=title,
        shows=shows,
        presets=presets,
        tasks=tasks,
        table=partial(table, of=of),
        checks=weight_checks if of == "weights" else representation_checks,
        decides={
            "PlainNet's weights": "section VI-C: weights of ResNet and ResNeXt have very small condition "
            "numbers, those of PlainNet significantly higher ones",
            "PlainNet: infinite": "section VI-C: from layer 80 on (CIFAR-10; 100 on CIFAR-100) "
            "representations of PlainNet have infinite condition numbers",
            "ResNet: no infinite": "section VI-C: representations of ResNet never have infinite condition "
            "numbers",
            "ResNeXt: no infinite": "section VI-C: representations of ResNeXt never have infinite "
            "condition numbers",
            "ResNeXt's representations": "section VI-C: representations of ResNeXt have smaller condition "
            "numbers than those of ResNet",
        },
        draw=partial(draw, of=of),
        notes=(
            "The paper does not say which mode of the HOSVD its condition numbers are of; the table "
            "has every mode. Judged and drawn is the mode of samples for representations, which is "
            "the matrix of the theory, and the largest of all modes for weights.",
            *((AT_QUICK,) if presets["quick"] is QUICK else ()),
        ),
        undecided=(
            "at `full`, that ResNeXt's condition numbers are smaller (section VI-C): the runs were published "
            "before that check was written; the drawn seed lies below ResNet from a fifth of the depth on",
        )
        if of == "representations"
        else (),
        unmet="By the median block PlainNet's weights have half of the condition number. The first block's "
        "weights do explode (figure 6); a likely reason is that most others hardly leave their start, as the "
        "check takes the median and the paper speaks of all."
        if number == "11"
        else "",
    )


_WEIGHTS = (
    "Layer weights of ResNet and ResNeXt have small condition numbers, those of the plain network "
    "far greater ones."
)
STUDIES = (
    _study(
        "11",
        "weights",
        "Condition numbers of the weights (MNIST, CIFAR-10)",
        _WEIGHTS,
        PRESETS | {"printed": on(PRINTED, "mnist", "cifar-10")},
    ),
    _study(
        "12", "weights", "Condition numbers of the weights (CIFAR-100)", _WEIGHTS, HUNDRED_PRESETS
    ),
    _study(
        "12_imagenet",
        "weights",
        "Condition numbers of the weights of 101 layers (ImageNet)",
        _WEIGHTS,
        imagenet_form.PRESETS,
    ),
    _study(
        "13",
        "representations",
        "Condition numbers of the hidden representations (CIFAR-10, CIFAR-100)",
        "From some layer on the plain network's representations have infinite condition numbers; "
        "those of ResNet and ResNeXt never do, and ResNeXt's are the smaller.",
        CIFAR_PRESETS | {"printed": on(PRINTED, "cifar-10", "cifar-100")},
    ),
)
