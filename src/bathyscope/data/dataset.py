"""What `load` returns: a labeled image set, split into train and test, in memory or on the disk."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bathyscope.core.arguments import check_count, check_seed
from bathyscope.core.errors import UsageError
from bathyscope.data.channels import channel_statistics, normalize
from bathyscope.data.streaming import Streamed


@dataclass(frozen=True, eq=False)
class DataSet:
    """A labeled set of images, with a train and a test part.

    Attributes:
        name: the name it was loaded by.
        train_inputs: float32 images; raw pixels lie in [0, 1]. A tensor, or a `Streamed` that is
            indexed like one and reads from the disk.
        train_labels: the class of each, 0 … num_classes − 1.
        test_inputs: as `train_inputs`.
        test_labels: as `train_labels`.
        num_classes: how many classes the set has, seen or not.
        mean: of each channel of the raw training images.
        std: of each channel of the raw training images; 1 where a channel is constant.
        is_normalized: whether the inputs have been shifted by `mean` and divided by `std`.
    """

    name: str
    train_inputs: Float[Tensor, " n c h w"] | Streamed
    train_labels: Int64[Tensor, " n"]
    test_inputs: Float[Tensor, " m c h w"] | Streamed
    test_labels: Int64[Tensor, " m"]
    num_classes: int
    mean: Float[Tensor, " c"]
    std: Float[Tensor, " c"]
    is_normalized: bool = False

    def __repr__(self) -> str:
        """One line: the name and the sizes."""
        return (
            f"<DataSet {self.name}: {len(self.train_labels)} images to train on, "
            f"{len(self.test_labels)} to test on, {'×'.join(map(str, self.shape))}, "
            f"{self.num_classes} classes>"
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.train_inputs.shape
        return channels, height, width

    def normalized(self) -> "DataSet":
        """The same set with zero mean and unit deviation in each channel of the training part.

        Examples:
            >>> from bathyscope import data
            >>> digits = data.load("digits").normalized()
            >>> bool(digits.train_inputs.mean().abs() < 1e-5)
            True
        """
        if self.is_normalized:
            return self
        return replace(
            self,
            train_inputs=self._normalize(self.train_inputs),
            test_inputs=self._normalize(self.test_inputs),
            is_normalized=True,
        )

    @property
    def is_streamed(self) -> bool:
        """Whether images are read from the disk as they are needed."""
        return isinstance(self.train_inputs, Streamed)

    def in_memory(self) -> tuple[Float[Tensor, " n c h w"], Float[Tensor, " m c h w"]]:
        """Training and test images as tensors; a set on the disk is read whole."""
        return self.train_inputs[:], self.test_inputs[:]

    def _normalize(self, inputs: Tensor | Streamed) -> Tensor | Streamed:
        if isinstance(inputs, Streamed):
            return inputs.normalized(self.mean, self.std)
        return normalize(inputs, mean=self.mean, std=self.std)

    def subset(
        self, num_train: int | None = None, num_test: int | None = None, *, seed: int = 0
    ) -> "DataSet":
        """A random part of the set, without replacement, the same for the same seed.

        Args:
            num_train: training samples to keep; all of them for None.
            num_test: test samples to keep; all of them for None.
            seed: of the draw.

        Raises:
            UsageError: more samples are asked for than there are.

        Examples:
            >>> from bathyscope import data
            >>> len(data.load("digits").subset(100).train_labels)
            100
        """
        generator = torch.Generator().manual_seed(check_seed(seed))
        train = _draw_split(len(self.train_labels), num_train, generator=generator, part="training")
        test = _draw_split(len(self.test_labels), num_test, generator=generator, part="test")
        return replace(
            self,
            train_inputs=_some(self.train_inputs, train),
            train_labels=self.train_labels[train],
            test_inputs=_some(self.test_inputs, test),
            test_labels=self.test_labels[test],
        )


def image_set(
    name: str, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, num_classes: int
) -> DataSet:
    """Images with their labels, in memory, as a set with the statistics of its training images."""
    mean, std = channel_statistics(train[0])
    return DataSet(name, *train, *test, num_classes, mean, std)


def _some(inputs: Tensor | Streamed, chosen: Tensor | slice) -> Tensor | Streamed:
    return inputs.subset(chosen) if isinstance(inputs, Streamed) else inputs[chosen]


def _draw_split(
    available: int, wanted: int | None, *, generator: torch.Generator, part: str
) -> Tensor | slice:
    if wanted is None:
        return slice(None)
    if not 1 <= check_count(f"the number of {part} samples", wanted) <= available:
        raise UsageError(
            f"{wanted} {part} samples were asked for; choose between 1 and {available}, "
            f"the number this set has."
        )
    return torch.randperm(available, generator=generator)[:wanted]
