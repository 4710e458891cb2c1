"""Training runs of nonlinear estimators on images taken as vectors, certified at start and end."""

from bisect import bisect_right
from functools import lru_cache
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import data, nets
from bathyscope.core.calls import num_parameters
from bathyscope.papers.nests.studies.watches import certificate
from bathyscope.studies.record import Preset
from bathyscope.studies.trial import TrainingTask
from bathyscope.training import Examples

Form = Literal["resnest", "narrow", "aresnest", "densenest"]
LABELS: dict[Form, str] = {
    "resnest": "ResNEst, wide enough",
    "narrow": "ResNEst, too narrow",
    "aresnest": "A-ResNEst",
    "densenest": "DenseNEst",
}


class VectorPreset(Preset):
    """Settings of the runs on vectors. The paper states none: these are ours.

    Attributes:
        num_blocks: L.
        features: K_i of the wide ResNEst, whose size the others are given.
        num_train: samples; all for None.
    """

    num_blocks: int = 6
    features: int = 12
    epochs: int
    lr: float = 0.002
    batch_size: int = 64
    num_train: int | None = None
    seeds: int = 3


PRESETS = {
    "quick": VectorPreset(epochs=20, num_train=1000, seeds=5),
    "full": VectorPreset(data="fashion-mnist", epochs=10, num_train=10_000),
}


def network(
    form: Form, num_inputs: int, num_outputs: int, *, num_blocks: int, features: int
) -> nn.Module:
    """A network of one form, all features of one size.

    The wide ResNEst has M = ΣK_i (i < L) + N_o, the intercept counted in K_0; the narrow one and the
    augmented one have M = N_in.
    """
    sizes = [features] * num_blocks
    if form == "densenest":
        return nets.densenest(num_inputs, num_outputs, feature_sizes=sizes)
    if form == "aresnest":
        return nets.aresnest(num_inputs, num_outputs, width=num_inputs, feature_sizes=sizes)
    width = num_inputs
    if form == "resnest":
        width += 1 + sum(sizes[:-1]) + num_outputs
    return nets.resnest(num_inputs, num_outputs, width=width, feature_sizes=sizes)


@lru_cache
def equal_features(form: Form, preset: VectorPreset) -> int:
    """The most features per block that cost no more parameters than the wide ResNEst has."""
    budget = _size("resnest", preset, preset.features)
    # A feature costs a parameter at least, so that the budget bounds the search.
    return bisect_right(range(1, budget), budget, key=lambda k: _size(form, preset, k))


def _size(form: Form, preset: VectorPreset, features: int) -> int:
    entry = data.entry(preset.data)
    with torch.device("meta"):
        built = network(
            form,
            torch.Size(entry.shape).numel(),
            entry.num_classes,
            num_blocks=preset.num_blocks,
            features=features,
        )
    return num_parameters(built)


class VectorTrial(TrainingTask):
    """A run on flattened images with one-hot targets under squared loss.

    The smallest risk over the prediction weights is then exact, and exists.

    Attributes:
        form: of the network.
        num_blocks: L.
        features: K_i, of every block.
    """

    watches: ClassVar = {"certificate": certificate}

    form: Form
    num_blocks: int
    features: int

    def examples(self) -> tuple[Examples, Examples | None]:
        """Training set alone: the theorems speak of the training risk."""
        (inputs, targets), _ = super().examples()
        x, labels = inputs[:], targets[:]
        classes = data.entry(self.data).num_classes
        return (x.flatten(1), F.one_hot(labels, classes).to(x)), None

    def build(self) -> nn.Module:
        """The network at its start."""
        (x, y), _ = self.examples()
        return network(
            self.form, x.shape[1], y.shape[1], num_blocks=self.num_blocks, features=self.features
        )


def vector_trial(form: Form, preset: VectorPreset, *, features: int, seed: int) -> VectorTrial:
    """The run of a form with this many features per block."""
    return preset.task(
        VectorTrial,
        model=f"vectors-{form}-{preset.num_blocks}-{features}",
        form=form,
        features=features,
        seed=seed,
        loss="mse",
        optimizer="adam",
        weight_decay=0.0,
        evaluate_every=0,
        log_every=100,
        watch=("certificate",),
        probe_size=preset.num_train or 1_000_000,
    )
