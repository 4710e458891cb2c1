"""The data of studies, loaded once per process."""

import functools

import torch
import torch.nn.functional as F

from bathyscope import data
from bathyscope.core.errors import UsageError
from bathyscope.training import Examples


@functools.lru_cache(maxsize=4)
def images(name: str, num_train: int | None, num_test: int | None) -> data.DataSet:
    """Images with zero mean and unit deviation in each channel, a fixed draw where fewer are kept."""
    return data.load(name, num_train=num_train, num_test=num_test, normalize=True)


@functools.lru_cache(maxsize=4)
def whitened_examples(name: str, components: int, num_train: int | None) -> Examples:
    """Whitened inputs and one-hot targets in float64   (shortcut_length, appendix B).

    Args:
        name: of an image set.
        components: largest principal components that are kept.
        num_train: samples that are kept of the training set; all for None.

    Raises:
        UsageError: the classes are not as many as the components, so that no n-shortcut network
            maps one to the other.
    """
    images = data.load(name)
    if images.num_classes != components:
        raise UsageError(
            f"An n-shortcut network has as many outputs as inputs, but {name} has "
            f"{images.num_classes} classes and {components} components were asked for."
        )
    whitening = data.whiten(images.train_inputs[:], components)
    kept = images.subset(num_train)
    x = whitening(kept.train_inputs[:].double())
    return x, F.one_hot(kept.train_labels, components).double()


@functools.lru_cache(maxsize=4)
def second_moments(name: str, components: int, num_train: int | None) -> Examples:
    """A few pseudo-samples on which a linear network has the loss of the whole set."""
    return data.moments(*whitened_examples(name, components, num_train))


def optimal_linear_loss(x: torch.Tensor, y: torch.Tensor) -> float:
    """min over W of 1/(2m) Σ ‖y − W x‖², by least squares.

    Examples:
        >>> x = torch.eye(2, dtype=torch.float64)
        >>> optimal_linear_loss(x, 3 * x)
        0.0
    """
    solution = torch.linalg.lstsq(x, y).solution
    result: float = ((y - x @ solution).square().sum() / (2 * len(x))).item()
    return result


def absent(names: set[str]) -> list[str]:
    """Those of the sets that would have to be fetched first."""
    plain = {name for name in names if ":" not in name}
    return sorted(name for name in plain if not data.is_present(name))
