"""The runs of figures 2 and 9: pre-activation networks whose shortcuts span n convolutions."""

from typing import Any, ClassVar

from bathyscope.papers.shortcut_length.studies.watches import norms
from bathyscope.studies.record import Preset
from bathyscope.studies.trial import TrainingTask


class ConvolutionPreset(Preset):
    """Settings of figures 2 and 9.

    Attributes:
        lengths: of the shortcuts.
        depths: 3kn + 2 for every length n, so that all have the same parameters.
        milestones: epochs after which the learning rate is divided by 10.
        nesterov: Nesterov's form of momentum.
    """

    sources: ClassVar = {
        "data": "printed: CIFAR-10",
        "lengths": "printed: one to four in figure 9, two in figure 2",
        "depths": "not printed: read off the figure; figure 9 has two above 400, of which it speaks",
        "epochs": "printed for figure 2: 200; figure 9 stops as the named code does, after 164",
        "lr": "printed: 0.1",
        "batch_size": "cited: the named code's 32",
        "milestones": "printed: the 81st and the 122nd epoch",
        "nesterov": "cited: the named code has it",
        "num_train": "ours: all images",
        "num_test": "ours: all images",
        "augmented": "cited: flips and shifts",
        "seeds": "printed for figure 9: ten; not for figure 2",
    }
    lengths: tuple[int, ...] = (2,)
    depths: tuple[int, ...]
    epochs: int
    lr: float = 0.1
    batch_size: int = 128
    milestones: tuple[float, ...] = (80, 121)
    nesterov: bool = False
    num_train: int | None = None
    num_test: int | None = None
    augmented: bool = False


class LengthTrial(TrainingTask):
    """A run at one depth and length of shortcuts.

    Attributes:
        depth: layers.
        length: n, convolutions under a shortcut.
    """

    watches: ClassVar = {"norms": norms}

    depth: int
    length: int


def tasks(preset: ConvolutionPreset) -> list[LengthTrial]:
    """One run a depth, length and seed."""
    return [
        _trial(preset, depth, length, seed=seed)
        for depth in preset.depths
        for length in preset.lengths
        for seed in range(preset.seeds)
    ]


def _trial(preset: ConvolutionPreset, depth: int, length: int, **more: Any) -> LengthTrial:
    return preset.task(
        LengthTrial,
        model=f"convshortcut-{depth}-{length}",
        depth=depth,
        length=length,
        schedule="step",
        flip=preset.augmented,
        shift=4 if preset.augmented else 0,
        log_every=20,
        watch=("norms",),
        watch_every=10,
        **more,
    )
