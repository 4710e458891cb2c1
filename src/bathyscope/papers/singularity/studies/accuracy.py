"""Tables I to III: accuracies of PlainNet, ResNet and ResNeXt of 164 layers."""

import numpy as np
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
GENERALIZES = 75.0
"""Percent: below the smallest test accuracy with skips of tables I to III."""

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
    result += test_checks(at_stated)
    for lr in preset.rates[1:]:
        part = table[table["lr"] == lr].groupby("network")["train_accuracy"].mean()
        text = ", ".join(f"{NETWORKS[n]} {part[n]:.1%}" for n in NETWORKS)
        result.append(Check(f"training accuracy at learning rate {lr:g}, as it falls", None, text))
    return tuple(result)


def test_checks(table: pd.DataFrame) -> list[Check]:
    """Test accuracies with skips, and ResNeXt against ResNet with the error of the difference over seeds."""
    groups = table.groupby("network")["test_accuracy"]
    means, counts = 100 * groups.mean(), groups.count()
    errors = (100 * groups.std() / counts**0.5).fillna(0.0)
    lead = float(means["resnext"] - means["resnet"])
    return [
        generalizes(float(means["resnet"]), float(means["resnext"])),
        outperforms(lead, float(np.hypot(errors["resnext"], errors["resnet"]))),
    ]


def generalizes(resnet: float, resnext: float) -> Check:
    """Whether the test accuracies with skips, in percent, are far above chance."""
    return Check(
        f"test accuracy of the networks with skips is above {GENERALIZES:g}%, the smallest that the paper "
        "prints; means of ResNet and ResNeXt",
        min(resnet, resnext) > GENERALIZES,
        f"{resnet:.1f}%, {resnext:.1f}%",
    )


def outperforms(lead: float, error: float) -> Check:
    """Whether ResNeXt leads ResNet by more than the error; one seed alone decides nothing."""
    return Check(
        "ResNeXt's test accuracy is above ResNet's by more than the standard error over the seeds; "
        "percentage points",
        lead > error if error else None,
        f"{lead:.2f} ± {error:.2f}" if error else lead,
    )


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
        decides={
            "PlainNet at": "section VI-C: plain networks of 164 layers cannot be trained, their training "
            "accuracy stays at chance",
            "ResNet at": "section VI-C: with skips there is no optimization problem; table: over 99.5 % of "
            "the training images",
            "ResNeXt at": "section VI-C: with skips there is no optimization problem; table: over 99.9 % "
            "of the training images",
            "test accuracy of the networks": "section VI-C: networks with skips generalize well, 75.7 to "
            "99.7 % of the test images",
            "ResNeXt's test accuracy": "section VI-C: ResNeXt outperforms ResNet on every data set, by "
            "0.12 to 1.16 points",
        },
        draw=draw,
        notes=NOTES if presets is PRESETS else (*NOTES, AT_QUICK),
        unmet="24 epochs on 1,500 images with a quarter of the channels: with skips the networks are still "
        "on their way up, ResNeXt behind ResNet on CIFAR-10; that PlainNet does not train is met.",
        undecided=() if number < 3 else ("anything on CIFAR-100, which no package registry has",),
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
        3, "CIFAR-100", HUNDRED_PRESETS, ("1.00 %, 1.12 %", "99.83 %, 75.72 %", "99.94 %, 76.64 %")
    ),
)
