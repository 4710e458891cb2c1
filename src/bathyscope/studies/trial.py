"""A task that is a training run: a network and a data set by name, watched while it trains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from bathyscope import nets
from bathyscope.core.batch import LossFn
from bathyscope.core.calls import num_parameters
from bathyscope.data import entry
from bathyscope.studies.examples import images
from bathyscope.studies.watcher import Watch, Watcher
from bathyscope.training import Callback, Data, TrainingConfig


class TrainingTask(TrainingConfig):
    """A training run of a study, with all that decides its numbers and its records.

    Attributes:
        model: a catalog name.
        model_options: keyword arguments of the network.
        init: initialization scheme; the family's own for None.
        normalization: False takes every batch normalization out of the network.
        data: name of the data set.
        num_train: training samples that are kept; all for None.
        num_test: test samples that are kept; all for None.
        projection: gain of the Procrustes remedy on the transition layers; none for None.
        watch: what is measured at the start, at the end, and on the way.
        watch_every: steps between measurements; only those of `watch_at` for 0.
        watch_at: further steps after which to measure.
        probe_size: training samples, always the same, on which it is measured.
        channels_last: as in `TrainingConfig`, but the default here.

    A subclass names in `watches` what its runs can measure, and in `at_end_only` what it does at the end.
    """

    watches: ClassVar[Mapping[str, Watch]] = {}
    at_end_only: ClassVar[frozenset[str]] = frozenset()

    model: str
    model_options: dict[str, object] = Field(default_factory=dict)
    init: str | None = None
    normalization: bool = True
    data: str = "digits"
    num_train: Annotated[int, Field(ge=1)] | None = None
    num_test: Annotated[int, Field(ge=1)] | None = None
    projection: Literal["isotropic", "relu", "measured"] | None = None
    watch: tuple[str, ...] = ()
    watch_every: Annotated[int, Field(ge=0)] = 0
    watch_at: tuple[int, ...] = ()
    probe_size: Annotated[int, Field(ge=2)] = 128
    channels_last: bool = True

    def prefix(self) -> str:
        """`resnet-164-digits-lr0.1-seed0`."""
        return f"{self.model}-{self.data}-lr{self.lr:g}-seed{self.seed}"

    def data_sets(self) -> tuple[str, ...]:
        """The one it trains on."""
        return (self.data,)

    def seeds_used(self) -> tuple[int, ...]:
        """The run's seed."""
        return (self.seed,)

    def examples(self) -> tuple[Data, Data | None]:
        """Training and test set."""
        result = images(self.data, self.num_train, self.num_test)
        return (result.train_inputs, result.train_labels), (result.test_inputs, result.test_labels)

    def build(self) -> nn.Module:
        """The network at its start, drawn from torch's generator."""
        result = images(self.data, self.num_train, self.num_test)
        model = nets.build_for(
            self.model,
            result.shape,
            num_classes=result.num_classes,
            init=self.init,
            **self.model_options,
        )
        if not self.normalization:
            nets.without_normalization_(model)
        return model

    def num_parameters(self) -> int:
        """Parameters of the network, for the images and classes of its data."""
        result = entry(self.data)
        sizes = nets.options_for(self.model, result.shape, num_classes=result.num_classes)
        return num_parameters(nets.skeleton(self.model, **sizes | self.model_options))

    def loss_fn(self) -> LossFn | None:
        """A loss in place of the one the configuration names."""
        return None

    def callbacks(self, data: Data) -> list[Callback]:
        """What is done to the network, and measured of it, while it trains on the data."""
        result: list[Callback] = []
        if self.projection is not None:
            from bathyscope.studies.projection import (
                Projection,  # few runs have it: it loads the remedies
            )

            result.append(Projection(self.projection))
        if self.watch:
            probe = (data[0][: self.probe_size], data[1][: self.probe_size])
            steps = frozenset(self.watch_at)
            result.append(
                Watcher(
                    {name: self.watches[name] for name in self.watch},
                    probe,
                    every=self.watch_every,
                    at=steps,
                    at_end_only=self.at_end_only,
                )
            )
        return result

    def run(self, folder: Path) -> None:
        """Train in the folder, from where it stands to its end."""
        from bathyscope.training import train  # where workers run it, nothing else needs the loop

        data, test = self.examples()
        train(
            self.build,
            data,
            config=self,
            folder=folder,
            test=test,
            loss=self.loss_fn(),
            callbacks=self.callbacks(data),
        )


def half_squared_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """L = 1/(2m) Σ_μ ‖y_μ − ŷ_μ‖²   (shortcut_length, section 4.2).

    Examples:
        >>> half_squared_error(torch.zeros(2, 3), torch.ones(2, 3)).item()
        1.5
    """
    return (output - target).square().sum() / (2 * len(target))
