"""The runs that figures 3 and 4 and table 1 look at: three architectures at three depths."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bathyscope.papers.norm_preservation.studies.watches import ratios
from bathyscope.studies.record import Preset
from bathyscope.studies.trial import TrainingTask


@dataclass(frozen=True, slots=True)
class Variant:
    """An architecture, with or without the projection.

    Attributes:
        label: in figures.
        family: of the catalog.
        added: layers beyond the depth that figures name.
        projection: the remedy's gain on the transition layers.
    """

    label: str
    family: str
    added: int = 0
    projection: Literal["isotropic"] | None = None


VARIANTS: dict[str, Variant] = {
    "plain": Variant("Plain", "preplain"),
    "resnet": Variant("ResNet", "preresnet"),
    "procresnet": Variant("ProcResNet", "procresnet", 2, "isotropic"),
    "procresnet_free": Variant("ProcResNet, not projected", "procresnet", 2),
    "resnet_projected": Variant("ResNet, projected", "preresnet", 0, "isotropic"),
}
MAIN = ("plain", "resnet", "procresnet")
"""The three that the paper compares."""


class ArchitecturePreset(Preset):
    """Settings of figures 3 and 4 and table 1: 100 epochs without decay of the learning rate."""

    sources: ClassVar = {
        "data": "printed: CIFAR-10",
        "depths": "printed: 20, 83 and 164",
        "epochs": "printed: 100",
        "lr": "printed: 0.1, not decayed",
        "batch_size": "printed: 128",
        "num_train": "ours: all images",
        "num_test": "ours: all images",
        "watch_every": "ours: once an epoch",
        "augmented": "printed: flips and shifts",
        "seeds": "printed: ten for table 1",
    }
    depths: tuple[int, ...]
    epochs: int
    lr: float = 0.1
    batch_size: int = 128
    num_train: int | None = None
    num_test: int | None = None
    watch_every: int
    augmented: bool = False


PRESETS = {
    "quick": ArchitecturePreset(
        depths=(20, 29),
        epochs=4,
        lr=0.02,
        batch_size=64,
        num_train=384,
        num_test=128,
        watch_every=8,
    ),
    "full": ArchitecturePreset(
        data="fashion-mnist",
        depths=(20, 47),
        epochs=4,
        lr=0.05,
        batch_size=32,
        num_train=1280,
        num_test=1000,
        watch_every=20,
        seeds=3,
    ),
    "printed": ArchitecturePreset(
        data="cifar-10", depths=(20, 83, 164), epochs=100, watch_every=391, augmented=True, seeds=10
    ),
}


class ArchitectureTrial(TrainingTask):
    """A run of one variant.

    Attributes:
        variant: of `VARIANTS`.
        depth: as figures name it.
    """

    watches: ClassVar = {"ratios": ratios}

    variant: str
    depth: int


def architecture_trial(
    preset: Preset, name: str, depth: int, *, erased: bool = False, augmented: bool, **settings: Any
) -> ArchitectureTrial:
    """The run of a variant at the depth that figures name; erased, a branch ends without its ReLU."""
    variant = VARIANTS[name]
    return preset.task(
        ArchitectureTrial,
        model=f"{variant.family}-{depth + variant.added}{'-erased' if erased else ''}",
        variant=name,
        depth=depth,
        projection=variant.projection,
        flip=augmented,
        shift=4 if augmented else 0,
        **settings,
    )


def tasks(
    preset: ArchitecturePreset, *, variants: tuple[str, ...] = MAIN
) -> list[ArchitectureTrial]:
    """One run a variant, depth and seed; figures that need fewer variants share these."""
    return [
        architecture_trial(
            preset,
            name,
            depth,
            augmented=preset.augmented,
            seed=seed,
            weight_decay=1e-4,
            schedule="constant",
            log_every=10,
            watch=("ratios",),
        )
        for depth in preset.depths
        for name in variants
        for seed in range(preset.seeds)
    ]
