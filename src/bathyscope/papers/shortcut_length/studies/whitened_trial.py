"""Gradient descent of an n-shortcut network on whitened data, as in appendix B."""

from typing import Any, ClassVar

from torch import nn

from bathyscope.core.batch import LossFn
from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.papers.shortcut_length.studies.watches import linear_spectrum, norms
from bathyscope.studies.examples import second_moments, whitened_examples
from bathyscope.studies.trial import TrainingTask, half_squared_error
from bathyscope.training import Examples


class WhitenedTrial(TrainingTask):
    """One run; a linear network trains on second moments, so its cost does not grow with the data.

    Attributes:
        kind: of `networks.KINDS`.
        depth: weight matrices.
        relu: put ReLUs at the mid positions.
        components: principal components that are kept.
    """

    watches: ClassVar = {"norms": norms, "spectrum": linear_spectrum}

    kind: str
    depth: int
    relu: bool = False
    components: int = 10

    def examples(self) -> tuple[Examples, Examples | None]:
        """Training set alone: the paper speaks of the training loss."""
        load = whitened_examples if self.relu else second_moments
        return load(self.data, self.components, self.num_train), None

    def build(self) -> nn.Module:
        """The network at its start."""
        return KINDS[self.kind].build(self.depth, width=self.components, relu=self.relu)

    def loss_fn(self) -> LossFn:
        """L of the paper."""
        return half_squared_error


def gradient_descent(
    kind: str, depth: int, *, epochs: int, lr: float, **more: Any
) -> WhitenedTrial:
    """A run of plain gradient descent on the whole set, without momentum or decay."""
    return WhitenedTrial(
        model=f"{kind}{'-relu' if more.get('relu') else ''}-{depth}",
        kind=kind,
        depth=depth,
        epochs=epochs,
        lr=lr,
        batch_size=None,
        momentum=0.0,
        weight_decay=0.0,
        schedule="constant",
        precision="float64",
        evaluate_every=0,
        log_every=epochs,
        probe_size=1_000_000,
        **more,
    )
