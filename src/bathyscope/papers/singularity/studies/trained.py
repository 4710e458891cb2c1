"""The runs that the tables and figures of section VI look at: three networks of one depth."""

from typing import Any, ClassVar

from bathyscope.core.json_values import JsonObject
from bathyscope.papers.singularity.studies.watches import conditions, deletion, values
from bathyscope.studies.record import Preset
from bathyscope.studies.trial import TrainingTask

NETWORKS: dict[str, str] = {"plain": "PlainNet", "resnet": "ResNet", "resnext": "ResNeXt"}
"""Families of the catalog, and their names in the paper."""
_TRUE_WIDTH = 16


class TrainedPreset(Preset):
    """Settings of section VI-A.

    Attributes:
        also: a second data set, for figures of two.
        depth: layers.
        width: channels of the stem, 16 in the networks as they are named.
        epochs: at the first learning rate.
        rates: learning rates; figures show the first.
        epochs_elsewhere: at the other learning rates; as many for None.
        evaluate_every: epochs between evaluations on the test set.
        probe_size: samples on which representations, weights and deletion are measured.
    """

    sources: ClassVar = {
        "data": "printed: table and figure captions",
        "also": "printed: figures of two data sets name both",
        "depth": "printed: 164 layers, 101 on ImageNet",
        "width": "cited: the residual networks that the paper names",
        "epochs": "printed: 200 at most",
        "rates": "printed: 0.1 at the start",
        "epochs_elsewhere": "ours: there is one rate",
        "batch_size": "printed: 128",
        "num_train": "ours: all images",
        "num_test": "ours: all images",
        "warmup_epochs": "not printed: none",
        "annealed": "printed: from 0.1 to 0.0001; the shape of the fall is not, and is a cosine here",
        "augmented": "printed: the usual flips and shifts, none on MNIST; on ImageNet without "
        "the rescaling that goes with them",
        "evaluate_every": "ours: for the curves",
        "probe_size": "not printed: 128 samples are measured",
        "seeds": "not printed: one",
    }
    also: str | None = None
    depth: int = 164
    width: int = _TRUE_WIDTH
    epochs: int
    rates: tuple[float, ...]
    epochs_elsewhere: int | None = None
    batch_size: int
    num_train: int | None = None
    num_test: int | None = None
    warmup_epochs: float = 0.0
    annealed: bool = False
    augmented: bool = False
    evaluate_every: int = 1
    probe_size: int = 128

    def model_of(self, network: str) -> str:
        """The catalog name of one of `NETWORKS`."""
        return f"{network}-{self.depth}"

    def options_of(self, network: str) -> JsonObject:
        """The keyword arguments it is built with; the paths of ResNeXt are narrowed alike."""
        if self.width == _TRUE_WIDTH:
            return {}
        paths = {"group_width": max(self.width // 2, 1)}
        return {"width": self.width} | (paths if network == "resnext" else {})


# Passing often over few samples is what lets all three networks run within three minutes.
QUICK = TrainedPreset(
    epochs=18,
    rates=(0.01, 0.1),
    epochs_elsewhere=3,
    batch_size=64,
    warmup_epochs=1.5,
    num_train=512,
    evaluate_every=3,
    probe_size=64,
)
# All layers at a quarter of the width, and so few images that 580 steps can learn them by heart.
FULL = TrainedPreset(
    data="fashion-mnist",
    width=4,
    epochs=24,
    rates=(0.01,),
    batch_size=64,
    warmup_epochs=1.0,
    num_train=1500,
    num_test=1000,
    evaluate_every=4,
    seeds=3,
)
PRINTED = TrainedPreset(data="mnist", epochs=200, rates=(0.1,), batch_size=128, annealed=True)


def on(preset: TrainedPreset, data: str, also: str | None = None) -> TrainedPreset:
    """The paper's settings on other data; images in color are flipped and shifted."""
    return preset.model_copy(
        update={"data": data, "also": also, "augmented": data.startswith("cifar")}
    )


PRESETS = {"quick": QUICK, "full": FULL, "printed": PRINTED}
AT_QUICK = "At quick the runs are those of table I: digits stand in for every data set."
"""What a reader of a study on other data than MNIST must know."""
CIFAR_PRESETS = {
    "quick": QUICK,
    "full": FULL.model_copy(update={"data": "cifar-10"}),
    "printed": on(PRINTED, "cifar-10"),
}
HUNDRED_PRESETS = {
    "quick": QUICK,
    "full": FULL.model_copy(update={"data": "synthetic:hues"}),
    "printed": on(PRINTED, "cifar-100"),
}
"""CIFAR-100 cannot be had everywhere: generated images of its shape and number of classes stand in."""


class NetworkTrial(TrainingTask):
    """A run of one of the networks.

    Attributes:
        network: of `NETWORKS`.
    """

    watches: ClassVar = {"conditions": conditions, "values": values, "deletion": deletion}
    at_end_only: ClassVar = frozenset({"values", "deletion"})

    network: str


def tasks(
    preset: TrainedPreset, *, networks: tuple[str, ...] = tuple(NETWORKS)
) -> list[NetworkTrial]:
    """One run a data set, network and seed at the first learning rate: what figures show."""
    return [
        _trial(preset, network, data=data, lr=preset.rates[0], seed=seed, epochs=preset.epochs)
        for data in (preset.data, preset.also)
        if data is not None
        for network in networks
        for seed in range(preset.seeds)
    ]


def tasks_at_all_rates(preset: TrainedPreset) -> list[NetworkTrial]:
    """The runs of `tasks` on the first data set, and the same at the other learning rates.

    Only tables look at those, so that nothing but the accuracies is measured there.
    """
    length = preset.epochs_elsewhere or preset.epochs
    elsewhere = [
        _trial(preset, network, data=preset.data, lr=lr, seed=seed, epochs=length, watch=())
        for lr in preset.rates[1:]
        for network in NETWORKS
        for seed in range(preset.seeds)
    ]
    return tasks(preset.model_copy(update={"also": None})) + elsewhere


def _trial(
    preset: TrainedPreset,
    network: str,
    *,
    watch: tuple[str, ...] = ("conditions", "values", "deletion"),
    **more: Any,
) -> NetworkTrial:
    return preset.task(
        NetworkTrial,
        model=preset.model_of(network),
        model_options=preset.options_of(network),
        network=network,
        # three drops by ten take the paper's 0.1 to its 0.0001
        schedule="step" if preset.annealed else "cosine",
        milestones=(0.4, 0.6, 0.8),
        flip=preset.augmented,
        shift=4 if preset.augmented else 0,
        watch=watch,
        **more,
    )
