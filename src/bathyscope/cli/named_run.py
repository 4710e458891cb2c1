"""A training run whose network and data are given by name: what `train` and `sweep` run."""

import functools
import os
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from bathyscope import data
from bathyscope.cli.build import load_weights
from bathyscope.cli.resolve import model_of
from bathyscope.core.devices import check_device
from bathyscope.training import Callback, Outcome, Saving, TrainingConfig, train


class NamedRun(TrainingConfig):
    """A training configuration with the names of its network and data set.

    Attributes:
        model: a catalog name or `package.module:factory`.
        model_options: keyword arguments of the network. A catalog network learns the number of
            classes and input channels from the data.
        data: the name of a data set, or of a set of sequences, whose loss is that of tokens.
        num_train: training samples to keep; all for None.
        num_test: test samples to keep; all for None.
        normalize: give each channel zero mean and unit deviation.
        weights: a file of weights to begin with; new ones for none.
    """

    model: str
    model_options: dict[str, object] = Field(default_factory=dict)
    data: str = "digits"
    num_train: int | None = Field(default=None, ge=1)
    num_test: int | None = Field(default=None, ge=1)
    normalize: bool = True
    weights: str = ""

    @field_validator("loss", mode="before")
    @classmethod
    def _spell_loss(cls, value: object) -> object:
        return value.replace("-", "_") if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _choose_loss(cls, values: object) -> object:
        if not isinstance(values, dict) or values.get("data") not in data.SEQUENCES:
            return values
        named = cls._spell_loss(values.get("loss", "cross_entropy"))
        return values | {"loss": "token_cross_entropy"} if named == "cross_entropy" else values

    def prefix(self) -> str:
        """`resnet-20-digits-lr0.1-seed0`."""
        return f"{self.model}-{self.data}-lr{self.lr:g}-seed{self.seed}"


def run(
    config: NamedRun,
    folder: Path,
    *,
    callbacks: tuple[Callback, ...] = (),
    begun: Literal["resume", "restart", "refuse"] = "resume",
    saving: Saving = Saving(),  # noqa: B008  frozen
    device: str | None = None,
) -> Outcome:
    """Train the run in its folder; the options are those of `training.train`.

    It is trained on the device named, or else on a GPU where there is one.
    """
    device = _device() if device is None else str(check_device(device))
    examples = _data(config.data, config.num_train, config.num_test, config.normalize)
    return train(
        functools.partial(_model, config, examples),
        (examples.train_inputs.to(device), examples.train_targets.to(device)),
        config=config,
        folder=folder,
        test=(examples.test_inputs.to(device), examples.test_targets.to(device)),
        callbacks=callbacks,
        begun=begun,
        saving=saving,
    )


class _Examples(NamedTuple):
    """Inputs with their labels, one per sample or one per token."""

    train_inputs: Tensor | data.Streamed
    train_targets: Tensor | data.Streamed
    test_inputs: Tensor | data.Streamed
    test_targets: Tensor | data.Streamed
    num_classes: int


def _model(config: NamedRun, examples: _Examples) -> nn.Module:
    model = model_of(
        config.model,
        options=config.model_options,
        sample_shape=examples.train_inputs.shape[1:],
        num_classes=examples.num_classes,
    )
    if config.weights:
        load_weights(model, Path(config.weights))
    return model


def _device() -> str:
    """A GPU where there is one; under torchrun each process has its own."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


@functools.lru_cache(maxsize=4)
def _data(name: str, num_train: int | None, num_test: int | None, normalize: bool) -> _Examples:
    """Loaded once per process: a sweep of many small runs asks for the same set again and again."""
    if name in data.SEQUENCES:
        sizes = {"num_train": num_train, "num_test": num_test}
        made = data.sequences(name, **{key: size for key, size in sizes.items() if size})
        train, test = (made.train_inputs, made.train_targets), (made.test_inputs, made.test_targets)
        return _Examples(*train, *test, made.vocabulary)
    result = data.load(name, num_train=num_train, num_test=num_test, normalize=normalize)
    train, test = (
        (result.train_inputs, result.train_labels),
        (result.test_inputs, result.test_labels),
    )
    return _Examples(*train, *test, result.num_classes)
