"""Section VII: special starts, gates and dense connections against the residual network."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from bathyscope.studies.drawing import legend, mean_lines, named, panels
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store
from bathyscope.studies.trial import TrainingTask


@dataclass(frozen=True, slots=True)
class Rival:
    """A network that is set against ResNet: its label, family, start, and extra layers."""

    label: str
    family: str
    init: str | None = None
    added: int = 0


RIVALS: dict[str, Rival] = {
    "resnet": Rival("ResNet", "resnet"),
    "plain": Rival("PlainNet, He", "plain"),
    "delta": Rival("PlainNet, delta-orthogonal", "plain", "delta_orthogonal"),
    "dirac_start": Rival("PlainNet, Dirac start", "plain", "dirac"),
    "dirac": Rival("DiracNet", "diracnet"),
    "highway": Rival("Highway", "highway"),
    "densenet": Rival("DenseNet", "densenet", None, 2),
}
_LABELS = {name: rival.label for name, rival in RIVALS.items()}


class RivalPreset(Preset):
    """Settings of the comparison."""

    depth: int
    epochs: int
    lr: float
    batch_size: int = 128
    num_train: int | None = None
    num_test: int | None = None
    augmented: bool = False


class RivalTrial(TrainingTask):
    """A run of one of them.

    Attributes:
        rival: of `RIVALS`.
    """

    rival: str


def tasks(preset: RivalPreset) -> list[RivalTrial]:
    """One run a network and seed."""
    return [
        RivalTrial(
            model=f"{rival.family}-{preset.depth + rival.added}",
            init=rival.init,
            rival=name,
            data=preset.data,
            num_train=preset.num_train,
            num_test=preset.num_test,
            epochs=preset.epochs,
            lr=preset.lr,
            batch_size=preset.batch_size,
            warmup_epochs=0.5,
            flip=preset.augmented,
            shift=4 if preset.augmented else 0,
            log_every=10,
            seed=seed,
        )
        for name, rival in RIVALS.items()
        for seed in range(preset.seeds)
    ]


def table(store: Store, preset: RivalPreset) -> pd.DataFrame:
    """One row a run and epoch."""
    return store.frame(tasks(preset), kind="epoch", keys=("rival", "seed"))


def checks(table: pd.DataFrame, preset: RivalPreset) -> tuple[Check, ...]:
    """ResNet is ahead of special starts; gates and dense connections keep up with it."""
    last = table[table["epoch"] == table["epoch"].max()].groupby("rival")["test_accuracy"].mean()
    resnet = float(last["resnet"])

    def lead(name: str) -> float:
        return resnet - float(last.get(name, 0.0))

    found = [
        Check(
            f"ResNet's test accuracy is above that of {_LABELS[name]}; by",
            lead(name) > 0,
            lead(name),
        )
        for name in ("plain", "delta", "dirac_start", "dirac")
    ]
    found += [
        Check(
            f"{_LABELS[name]} comes within 0.1 of ResNet's test accuracy; ResNet's lead",
            lead(name) < 0.1,
            lead(name),
        )
        for name in ("highway", "densenet")
    ]
    return tuple(found)


def draw(table: pd.DataFrame, preset: RivalPreset) -> Figure:
    """Training and test accuracy over epochs."""
    figure, axes = panels(2, share_y=True)
    shown = table.assign(epoch=table["epoch"] + 1)
    for ax, half in zip(axes, ("train", "test"), strict=True):
        named(ax, title=f"{half} accuracy", x="epoch", y="accuracy" if half == "train" else "")
        mean_lines(ax, shown, x="epoch", y=f"{half}_accuracy", by="rival", labels=_LABELS)
        ax.set_ylim(0, 1.02)
    legend(axes[0], place="upper left")
    return figure


STUDY = Study(
    name="singularity.similar_networks",
    title="Special starts, gates and dense connections against the residual network",
    shows=(
        "Section VII argues that Dirac and delta-orthogonal starts do not replace skips in deep "
        "networks, that Highway networks work for the reason ResNets do, and leaves DenseNets to "
        "future work."
    ),
    presets={
        "quick": RivalPreset(depth=56, epochs=5, lr=0.01, batch_size=64),
        "full": RivalPreset(
            data="cifar-10", depth=56, epochs=5, lr=0.05, num_train=5000, num_test=2000, seeds=2
        ),
        "paper": RivalPreset(data="cifar-10", depth=164, epochs=200, lr=0.1, augmented=True),
    },
    tasks=tasks,
    table=table,
    checks=checks,
    draw=draw,
    notes=("The paper argues here from the results of others; these runs are ours.",),
)
