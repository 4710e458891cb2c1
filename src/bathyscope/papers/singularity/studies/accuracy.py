"""Tables I to III: accuracies of PlainNet, ResNet and ResNeXt of 164 layers."""

import pandas as pd
from matplotlib.figure import Figure

from bathyscope import data, nets
from bathyscope.papers.singularity.studies.trained import (
    AT_QUICK,
    CIFAR_PRESETS,
    HUNDRED_PRESETS,
    NETWORKS,
    PRESETS,
    TrainedPreset,
    tasks_at_all_rates,
)
from bathyscope.studies.drawing import text_table
from bathyscope.studies.record import Check, Study
from bathyscope.studies.store import Store

UNTRAINED = 1.5
"""Times the accuracy of chance under which the training accuracy of an untrainable network stays."""
TRAINED = 0.97
"""Training accuracy that counts as trained."""

SHOWS = (
    "The plain network cannot be trained: its training accuracy stays at chance. With skips the "
    "same depth trains and generalizes, ResNeXt a little better than ResNet."
)
NOTES = (
    "Training accuracy is the mean over the last epoch, in training mode. The paper's count of "
    "PlainNet's parameters (2.5 million) does not follow from leaving out the skips.",
)


def table(store: Store, preset: TrainedPreset) -> pd.DataFrame:
    """One row per run: accuracies after the last epoch, chance where it diverged."""
    runs = tasks_at_all_rates(preset)
    frame = store.endings(runs, keys=("network", "model", "data", "lr", "seed"))
    for column in ("train_accuracy", "test_accuracy"):
        if column not in frame:
            frame[column] = float("nan")
    shape = data.entry(preset.data)
    counts = {
        run.model: sum(
            p.numel()
            for p in nets.skeleton(
                run.model,
                num_classes=shape.num_classes,
                in_channels=shape.shape[0],
                **run.model_options,
            ).parameters()
        )
        for run in runs
    }
    return frame.assign(parameters=frame["model"].map(counts))


def checks(table: pd.DataFrame, preset: TrainedPreset) -> tuple[Check, ...]:
    """Plain at chance, the others trained, at one learning rate for all."""
    stated = preset.rates[0]
    at_stated = table[table["lr"] == stated]
    minimum, most = (
        at_stated.groupby("network")["train_accuracy"].agg(which) for which in ("min", "max")
    )
    untrained = UNTRAINED / data.entry(preset.data).num_classes
    result = [
        Check(
            f"PlainNet at learning rate {stated:g}: training accuracy at most {100 * untrained:g}%; "
            "largest of the seeds",
            not most["plain"] > untrained,  # a run that diverged has none
            float(most["plain"]),
        )
    ]
    for network in ("resnet", "resnext"):
        result.append(
            Check(
                f"{NETWORKS[network]} at learning rate {stated:g}: training accuracy above "
                f"{TRAINED:.0%}; smallest of the seeds",
                bool(minimum[network] > TRAINED),
                float(minimum[network]),
            )
        )
    for lr in preset.rates[1:]:
        part = table[table["lr"] == lr].groupby("network")["train_accuracy"].mean()
        text = ", ".join(f"{NETWORKS[n]} {part[n]:.1%}" for n in NETWORKS)
        result.append(Check(f"training accuracy at learning rate {lr:g}, as it falls", None, text))
    return tuple(result)


def draw(table: pd.DataFrame, preset: TrainedPreset) -> Figure:
    """The table as the paper prints it."""
    rows = []
    for (lr, network), group in table.groupby(["lr", "network"]):
        row: dict[str, object] = {"network": f"{NETWORKS[str(network)]}-{preset.depth}"}
        row["learning rate"] = f"{lr:g}"
        for half in ("train", "test"):
            values = 100 * group[f"{half}_accuracy"]
            spread = f" ± {values.std():.2f}" if len(values) > 1 else ""
            row[f"{half} accuracy (%)"] = f"{values.mean():.2f}{spread}"
        row["epochs"] = round(float(group["epoch"].max())) + 1
        row["parameters"] = int(group["parameters"].iloc[0])
        row["ended"] = ", ".join(sorted(set(group["status"])))
        rows.append(row)
    title = f"Accuracies on {preset.data}, {preset.seeds} seed(s)"
    return text_table(pd.DataFrame(rows), title=title, width=8.6)


def _study(
    number: int, data: str, presets: dict[str, TrainedPreset], printed: tuple[str, str, str]
) -> Study:
    return Study(
        name=f"singularity.table_{number}",
        title=f"Accuracies of PlainNet, ResNet and ResNeXt of 164 layers ({data})",
        shows=SHOWS,
        presets=presets,
        tasks=tasks_at_all_rates,
        table=table,
        checks=checks,
        draw=draw,
        notes=NOTES if presets is PRESETS else (*NOTES, AT_QUICK),
        undecided=("test accuracies, and that ResNeXt's are above ResNet's (section VI-C)",),
        printed=tuple(
            f"{name}-164: training and test accuracy {values}"
            for name, values in zip(NETWORKS.values(), printed, strict=True)
        ),
    )


STUDIES = (
    _study(1, "MNIST", PRESETS, ("11.38 %, 11.35 %", "99.58 %, 99.60 %", "100 %, 99.72 %")),
    _study(
        2, "CIFAR-10", CIFAR_PRESETS, ("10.26 %, 10.16 %", "99.93 %, 93.53 %", "99.96 %, 93.89 %")
    ),
    _study(
        3,
        "CIFAR-100",
        HUNDRED_PRESETS,
        ("1.00 %, 1.12 %", "99.83 %, 75.72 %", "99.94 %, 76.64 %"),
    ),
)
