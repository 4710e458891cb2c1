"""Risk block by block: three forms of equal size, and a ResNEst that is too narrow."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.nests.studies.vectors import (
    LABELS,
    PRESETS,
    VectorPreset,
    VectorTrial,
    equal_features,
    vector_trial,
)
from bathyscope.studies.drawing import color, label_axes, legend, legend_below, mean_lines, panels
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

_ROUNDING = 1e-9  # of the constant predictor's risk
_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_MARKERS = {
    "risk": ("o", "as trained"),
    "attainable_risk": ("D", "a ResNEst's best"),
    "bound": ("_", "bound of its features"),
}


def tasks(preset: VectorPreset) -> list[VectorTrial]:
    """One run a form and seed, none with more parameters than the wide ResNEst."""
    return [
        vector_trial(form, preset, features=equal_features(form, preset), seed=seed)
        for form in LABELS
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: VectorPreset) -> pd.DataFrame:
    """One row per run and block, at the end of training; risks as fractions of the constant's."""
    frame = store.frame(tasks(preset), kind="certificate", keys=("form", "features", "seed"))
    frame = frame[frame["step"] > 0].reset_index(drop=True)
    for column in (
        "risk",
        "linear_risk",
        "bound",
        "attainable_risk",
        "block_risk",
        "truncated_risk",
    ):
        frame[column] = frame[column].astype(float) / frame["constant_risk"]
    return frame


def checks(table: pd.DataFrame, preset: VectorPreset) -> tuple[Check, ...]:
    """Never rising with weights solved again; what the guarantee is worth."""
    runs = table.groupby(["form", "seed"])
    rises = runs["block_risk"].apply(lambda risks: risks.diff().max())
    literal = runs["truncated_risk"].apply(lambda risks: bool((risks.diff() > _ROUNDING).any()))
    last = runs.last()
    gap = (last["attainable_risk"] - last["bound"]).groupby("form").max()
    risk = last["bound"].groupby("form").mean()
    return (
        Check(
            "with the prediction weights solved again the risk never rises from block to block; "
            "runs in which it does not",
            bool((rises <= _ROUNDING).all()),
            f"{int((rises <= _ROUNDING).sum())} of {len(rises)}",
        ),
        Check(
            "the solved risk of every network lies below the best linear predictor's; largest "
            "ratio of the two",
            bool((last["bound"] < last["linear_risk"]).all()),
            float((last["bound"] / last["linear_risk"]).max()),
        ),
        Check(
            "a wide enough ResNEst can reach the bound of its features: largest ε of its best "
            "prediction weights, as a fraction of the constant's risk",
            float(gap["resnest"]) <= 1e-6,
            float(gap["resnest"]),
        ),
        Check(
            "a too narrow one cannot: the same for it, above 1e-6 wanted",
            float(gap["narrow"]) > 1e-6,
            float(gap["narrow"]),
        ),
        Check(
            "at equal size DenseNEst has a lower solved risk than the wide ResNEst, whose room is "
            "paid for in parameters; ratio",
            bool(risk["densenest"] < risk["resnest"]),
            float(risk["densenest"] / risk["resnest"]),
        ),
        Check(
            "equation 7 read literally, later weights set to zero: runs in which the risk rises",
            None,
            f"{int(literal.sum())} of {len(literal)}",
        ),
    )


def draw(table: pd.DataFrame, preset: VectorPreset) -> Figure:
    """Solved risk after each block, and each network as it stands beside its bound."""
    figure, axes = panels(2, width=4.8, height=3.6, share_y=True)
    label_axes(
        axes[0],
        title="prediction weights solved again after each block",
        x="block (0: the input alone)",
        y="risk / risk of the best constant",
        log="y",
    )
    sizes = table.groupby("form")["features"].first()
    labels = {form: f"{label} (K = {sizes[form]})" for form, label in LABELS.items()}
    mean_lines(
        axes[0], table, x="feature", y="block_risk", by="form", order=list(LABELS), labels=labels
    )
    label_axes(axes[1], title="at the end of training", x="", y="", log="y")
    last = table.groupby(["form", "seed"]).last().groupby("form").mean(numeric_only=True)
    linear = float(last["linear_risk"].mean())
    axes[1].axhline(linear, color="0.4", lw=1, ls=":", label="best linear predictor")
    for column, (marker, label) in _MARKERS.items():
        axes[1].plot([], [], marker, color="0.3", ms=7, mew=1.5, mfc="none", label=label)
        for i, form in enumerate(LABELS):
            value = last[column][form]
            axes[1].plot([i], [value], marker, color=color(i), ms=9, mew=1.8, mfc="none")
    axes[1].set_xticks(range(len(LABELS)), [name.replace(", ", ",\n") for name in LABELS.values()])
    axes[1].set_xlim(-0.5, len(LABELS) - 0.5)
    low = float(last["bound"].min()) / 1.4
    marks = [mark for mark in _TICKS if low <= mark <= 2 * linear]
    axes[0].set_yticks(marks, [f"{mark:g}" for mark in marks])
    axes[0].set_ylim(low, 3 * linear)  # room for the legend above the dotted line
    legend(axes[1], location="upper left", columns=2)
    legend_below(figure, axes[0])
    return figure


STUDY = Study(
    name="nests.blocks",
    title="Risk block by block for ResNEst, A-ResNEst and DenseNEst of equal size",
    shows=(
        "With the prediction weights at their best, no further block makes the risk greater. An "
        "A-ResNEst and a DenseNEst always get there; a ResNEst does if it is wide enough for all of "
        "its features."
    ),
    presets=PRESETS,
    tasks=tasks,
    table=table,
    checks=checks,
    decides={
        "with the prediction": "corollary 1: no block makes the representation worse",
        "the solved risk": "corollary 2: every representation is better than the input",
        "a wide enough": "theorem 1: the bound is attained",
        "a too narrow": "section 3.2: it is not attained below the bottleneck condition",
        "at equal size": "section 4: DenseNEsts have the advantage over ResNEsts",
    },
    draw=draw,
    notes=(
        "The paper states no settings; all are ours. Equal size: the wide ResNEst has K features a "
        "block and M = ΣK_i + N_o, the others the most features per block that cost no more "
        "parameters; A-ResNEst and the narrow ResNEst have M = N_in. Squared loss on one-hot labels, "
        "on the training data.",
    ),
)
