"""How linearly predictable features are from those before them, with and without dense connections."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.nests.studies.vectors import (
    LABELS,
    PRESETS,
    Form,
    VectorPreset,
    VectorTrial,
    vector_trial,
)
from bathyscope.studies.drawing import label_axes, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

_COMPARED: tuple[Form, ...] = ("resnest", "aresnest", "densenest")
_MOMENTS = {True: "as drawn", False: "at the end of training"}


def tasks(preset: VectorPreset) -> list[VectorTrial]:
    """One run a form and seed, all features of all forms of one size."""
    return [
        vector_trial(form, preset, features=preset.features, seed=seed)
        for form in _COMPARED
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: VectorPreset) -> pd.DataFrame:
    """One row per run, moment and block: the fraction of the feature's variance left unexplained."""
    frame = store.frame(tasks(preset), kind="certificate", keys=("form", "features", "seed"))
    frame = frame[frame["feature"] > 0].reset_index(drop=True)
    frame["at_start"] = frame["step"] == 0
    return frame[["form", "seed", "at_start", "feature", "size", "new_directions", "unpredicted"]]


def checks(table: pd.DataFrame, preset: VectorPreset) -> tuple[Check, ...]:
    """Every nonlinear feature is new, and denser connections make it more so."""
    whole = table["new_directions"] == table["size"]
    result = [
        Check(
            "no feature of ReLUs is wholly linear in those before it: smallest unexplained share",
            bool((table["unpredicted"] > 1e-9).all()),
            float(table["unpredicted"].min()),
        ),
        Check(
            "features all of whose directions are new", None, f"{int(whole.sum())} of {len(whole)}"
        ),
    ]
    for at_start, moment in _MOMENTS.items():
        later = table[(table["at_start"] == at_start) & (table["feature"] > 1)]
        means = later.groupby("form")["unpredicted"].mean()
        ratio = float(means["densenest"] / means["aresnest"])
        result.append(
            Check(
                f"{moment}, from the second block on, less of a feature is predictable with dense "
                "connections: unexplained fraction of DenseNEst over that of A-ResNEst, above 1 wanted",
                ratio > 1,
                ratio,
            )
        )
    return tuple(result)


def draw(table: pd.DataFrame, preset: VectorPreset) -> Figure:
    """Unexplained share over the blocks, before and after training."""
    figure, axes = panels(2, share_y=True, height=3.4)
    labels = {form: LABELS[form] for form in _COMPARED}
    for ax, (at_start, moment) in zip(axes, _MOMENTS.items(), strict=True):
        label_axes(ax, title=moment, x="block i", y="fraction of vᵢ not linear in v₀ … vᵢ₋₁")
        part = table[table["at_start"] == at_start]
        mean_lines(
            ax, part, x="feature", y="unpredicted", by="form", order=_COMPARED, labels=labels
        )
        ax.set_xticks(range(1, preset.num_blocks + 1))
    axes[0].set_ylim(bottom=0)  # of both, once all is drawn
    axes[1].set_ylabel("")
    legend_below(figure, axes[0])
    return figure


STUDY = Study(
    name="nests.predictability",
    title="How linearly predictable each feature is from those before it",
    shows=(
        "A block improves the representation only if its feature is not linear in those before it. "
        "In a DenseNEst, where a block sees all features side by side and not their sum, the paper "
        "expects that to be less likely still than in an A-ResNEst."
    ),
    presets=PRESETS,
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "no feature": "section 2.4: features of nonlinear blocks are usually not linearly predictable",
        "as drawn": "section 4: linear predictability is even more unlikely in DenseNEsts",
        "at the end": "section 4: linear predictability is even more unlikely in DenseNEsts",
    },
    draw=draw,
    unmet="A likely reason: where all units of a block are dead its feature is zero, and so "
    "predictable; ReLUs allow it, and the paper says usually.",
    notes=(
        "The paper states no settings and shows no numbers; all are ours. Every form has as many "
        "features per block. The share is of the summed variance, by least squares on the training "
        "data; with a sample a feature or fewer it would be zero by counting.",
    ),
)
