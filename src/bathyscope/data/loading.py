"""`load` a set by its name, and the names there are."""

from collections.abc import Callable
from pathlib import Path

from bathyscope.core.errors import UnknownName
from bathyscope.data.dataset import DataSet
from bathyscope.data.digits import digits
from bathyscope.data.synthetic import synthetic

# Each reader takes (data_dir, seed) and ignores what it has no use for.
_READERS: dict[str, Callable[[Path | None, int], DataSet]] = {
    "digits": lambda data_dir, seed: digits(),
    "synthetic:gaussian": lambda data_dir, seed: synthetic("gaussian", seed=seed),
    "synthetic:spirals": lambda data_dir, seed: synthetic("spirals", seed=seed),
    "synthetic:teacher": lambda data_dir, seed: synthetic("teacher", seed=seed),
    "synthetic:gratings": lambda data_dir, seed: synthetic("gratings", seed=seed),
}


def names() -> list[str]:
    """The names `load` knows, the default first.

    Example:
        >>> names()[0]
        'digits'
    """
    return list(_READERS)


def load(
    name: str = "digits",
    *,
    data_dir: Path | str | None = None,
    normalise: bool = False,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
) -> DataSet:
    """The set of that name, in memory.

    Args:
        name: one of `names()`.
        data_dir: the folder to read a downloaded set from; the cache folder for None.
        normalise: give each channel zero mean and unit deviation over the training images.
        num_train: keep this many training samples, drawn at random; all for None.
        num_test: keep this many test samples, drawn at random; all for None.
        seed: of a synthetic set and of the draw.

    Returns:
        The set; pixels lie in [0, 1] unless normalised.

    Raises:
        UnknownName: there is no such set.
        UsageError: files are missing or damaged, or more samples are asked for than there are.

    Example:
        >>> digits = load("digits", normalise=True, num_train=256)
        >>> digits.train_inputs.shape, digits.num_classes
        (torch.Size([256, 1, 8, 8]), 10)
    """
    if name not in _READERS:
        raise UnknownName("data set", name, _READERS)
    folder = Path(data_dir) if data_dir is not None else None
    dataset = _READERS[name](folder, seed)
    if normalise:
        dataset = dataset.normalised()
    return dataset.subset(num_train, num_test, seed=seed)
