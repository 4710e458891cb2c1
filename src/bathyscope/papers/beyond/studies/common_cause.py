"""The common cause: what do the networks that train have in common, and which explanation survives?"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bathyscope.papers.beyond.studies import depth
from bathyscope.papers.beyond.studies.depth import DeepPreset
from bathyscope.papers.beyond.studies.networks import LABELS
from bathyscope.studies.drawing import text_table
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

QUANTITIES: dict[str, tuple[str, str]] = {
    "cosine": ("singularity", "cosine of pairs of samples, last block"),
    "condition": ("singularity", "log₁₀ κ of the last block's outputs"),
    "gradient_range": ("norm_preservation", "log₁₀ range of ‖∂E/∂x‖ over the blocks"),
    "unexplained": ("nests", "fraction of the labels that the last features leave unexplained"),
    "sharpness": ("shortcut_length", "log₁₀ of the Hessian's largest |λ|"),
    "spread": ("shortcut_length", "log₁₀ of its largest over its mean |λ|, less than that of κ"),
    "negative": ("shortcut_length", "fraction of Σ|λ| that its negative eigenvalues make up"),
}
"""What each paper explains training by, as `causes` measures it."""


_ENOUGH = 10
"""Runs from which on a threshold that distinguishes them says something."""


def table(store: Store, preset: DeepPreset) -> pd.DataFrame:
    """A row for every run: its accuracy, and the quantities at the start and at the end."""
    ends = depth.shown(depth.table(store, preset))[["kind", "lr", "seed", "accuracy"]]
    rows = store.frame(depth.tasks(preset), kind="cause", keys=("kind", "lr", "seed"))
    measured = [name for name in QUANTITIES if name in rows]
    wide = rows.pivot_table(
        index=["kind", "lr", "seed"], columns="moment", values=measured, aggfunc="first"
    )
    wide.columns = pd.Index([f"{name}_{moment}" for name, moment in wide.columns])
    return ends.merge(wide.reset_index(), on=["kind", "lr", "seed"], how="left")


def out_of_order(values: pd.Series, trains: pd.Series) -> int:
    """Runs on the wrong side of the best single threshold, in either direction.

    Examples:
        >>> out_of_order(pd.Series([1.0, 2.0, 3.0]), pd.Series([True, True, False]))
        0
        >>> out_of_order(pd.Series([1.0, 2.0, 3.0, 4.0]), pd.Series([True, False, True, False]))
        1
    """
    # what could not be measured marks a broken network: it stands at one end
    numbers = values.astype(float).replace(-np.inf, np.nan).fillna(np.inf)
    cuts = [-np.inf, *sorted(set(numbers))]
    wrong = [int(((numbers <= cut) != trains).sum()) for cut in cuts]
    return min(min(wrong), len(numbers) - max(wrong))


def checks(table: pd.DataFrame, preset: DeepPreset) -> tuple[Check, ...]:
    """Which quantity, measured before the first step, separates the networks that train from the others."""
    trains = table["accuracy"] > preset.wanted
    result = []
    for name, (theme, text) in QUANTITIES.items():
        column = f"{name}_start"
        if column not in table:
            continue
        wrong = out_of_order(table[column], trains)
        result.append(
            Check(
                f"{theme}: {text}, at the start, separates networks that train from those that do "
                "not; runs on the wrong side of the best threshold",
                wrong == 0 if len(table) >= _ENOUGH else None,  # few runs decide nothing
                f"{wrong} of {len(table)}",
            )
        )
    return tuple(result)


def draw(table: pd.DataFrame, preset: DeepPreset) -> Figure:
    """Means over the seeds, before the first step and after the last."""
    rows = []
    for kind, part in table.groupby("kind", sort=False):
        row: dict[str, object] = {
            "network": LABELS[str(kind)],
            "accuracy": f"{part['accuracy'].mean():.2f}",
        }
        for name in QUANTITIES:
            if f"{name}_start" in part:
                ends = (part[f"{name}_{moment}"].mean() for moment in ("start", "end"))
                row[_SHORT[name]] = " → ".join(f"{value:.2g}" for value in ends).replace("inf", "∞")
        rows.append(row)
    title = f"Start → end, {preset.depth} layers on {preset.data}, {preset.seeds} seed(s)"
    return text_table(pd.DataFrame(rows), title=title, width=13.5)


_SHORT = {
    "cosine": "cosine",
    "condition": "log₁₀ κ",
    "gradient_range": "log₁₀ gradient range",
    "unexplained": "labels unexplained",
    "sharpness": "log₁₀ |λ|max",
    "spread": "log₁₀ |λ|max / mean",
    "negative": "negative fraction of Σ|λ|",
}

STUDY = Study(
    name="beyond.common_cause",
    title="What networks that train have in common, by the quantities of the four papers",
    shows=(
        "Tailored rectifiers and shortcuts make 100 layers trainable with every seed, He and ReLU with none, "
        "with BatchNorm or without it. Each paper explains training by one quantity; one that explains it "
        "must separate all networks that train from those that do not, before the first step."
    ),
    presets=depth.STUDIES[0].presets,
    tasks=depth.tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=(
        "What survives at full: a gradient that keeps its norm over the depth (norm_preservation) and last "
        "features that still separate the labels (nests) part all networks that train from all that do not. "
        "Representations that are not singular do not suffice: with BatchNorm they are the best conditioned "
        "of the four before the first step, but the gradient grows 10⁸-fold and the network does not train.",
        "The runs are those of beyond.dense_digits. The Hessian is measured on 32 samples, by Lanczos; at "
        "quick it is not.",
    ),
)
