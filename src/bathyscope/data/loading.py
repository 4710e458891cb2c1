"""`load` a set by its name, and the names there are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bathyscope.core.arguments import check_count, check_flag, check_name, check_path, check_seed
from bathyscope.core.errors import UsageError
from bathyscope.data.cache import data_folder, how_to_get
from bathyscope.data.catalog import CATALOG, entry
from bathyscope.data.dataset import DataSet
from bathyscope.data.digits import digits
from bathyscope.data.folder import folder, image_folders
from bathyscope.data.need import MemoryNeed, need_of
from bathyscope.data.npz import array_shapes, npz
from bathyscope.data.official import cifar_set, idx_set
from bathyscope.data.records import map_idx
from bathyscope.data.streamed_sets import stream_folder, stream_idx, stream_npz
from bathyscope.data.streaming import Streamed, usual_workers
from bathyscope.data.synthetic import synthetic

# Each reader takes (data folder, seed) and ignores what it has no use for.
_READERS: dict[str, Callable[[Path, int], DataSet]] = {
    "digits": lambda root, seed: digits(),
    "mnist": lambda root, seed: idx_set("mnist", root),
    "fashion-mnist": lambda root, seed: idx_set("fashion-mnist", root),
    "cifar-10": lambda root, seed: cifar_set("cifar-10", root),
    "cifar-100": lambda root, seed: cifar_set("cifar-100", root),
    "synthetic:gaussian": lambda root, seed: synthetic("gaussian", seed=seed),
    "synthetic:spirals": lambda root, seed: synthetic("spirals", seed=seed),
    "synthetic:teacher": lambda root, seed: synthetic("teacher", seed=seed),
    "synthetic:gratings": lambda root, seed: synthetic("gratings", seed=seed),
    "synthetic:hues": lambda root, seed: synthetic("hues", seed=seed),
}
# These are read file by file, so only the images that are kept are read.
_IMAGE_TREES = {
    "tiny-imagenet": ("tiny-imagenet/tiny-imagenet-200", "tiny-imagenet-200"),
    "imagenet": ("imagenet",),
}
_SIDE = 64


def names() -> list[str]:
    """The names `load` knows, the default first; beside them, `folder:PATH`, `npz:PATH` and
    `idx:PATH`.

    Examples:
        >>> names()[:3]
        ['digits', 'mnist', 'fashion-mnist']
    """
    return list(CATALOG)


def load(
    name: str = "digits",
    *,
    data_dir: Path | str | None = None,
    normalize: bool = False,
    num_train: int | None = None,
    num_test: int | None = None,
    size: int | None = None,
    seed: int = 0,
    stream: bool | None = None,
    workers: int | None = None,
    skip_damaged: bool = False,
) -> DataSet:
    """The set of that name, in memory, or on the disk where it is larger than memory can hold.

    Args:
        name: one of `names()`; `folder:PATH` for a folder of images; `npz:PATH` for arrays;
            `idx:PATH` for a folder with four idx files named as MNIST's.
        data_dir: the folder to read a downloaded set from, in any of its official formats; the
            cache folder for None.
        normalize: give each channel zero mean and unit deviation over the training images.
        num_train: keep this many training samples, drawn at random; all for None.
        num_test: keep this many test samples, drawn at random; all for None.
        size: side to which the pictures of an image folder are brought; for None that of the
            catalog's entry, and 64 for your own folder.
        seed: of a synthetic set and of the draw.
        stream: read image folders, npz and idx files as they are needed; for None where they would
            take more than half of the free memory (`memory_need` says it beforehand).
        workers: processes that read a stream ahead; half of the processors, four at most, for None.
        skip_damaged: leave out samples of a stream whose file is missing or damaged, with a warning;
            without it the first of them is an error that names the file.

    Returns:
        The set; pixels lie in [0, 1] unless normalized.

    Raises:
        UnknownName: there is no such set.
        UsageError: files are missing or damaged, or more samples are asked for than there are.

    Examples:
        >>> digits = load("digits", normalize=True, num_train=256)
        >>> digits.train_inputs.shape, digits.num_classes
        (torch.Size([256, 1, 8, 8]), 10)
    """
    root = data_folder(data_dir)
    tree = _image_tree(check_name("The name of the data set", name), root)
    seed = check_seed(seed)
    check_flag("normalize", normalize)
    if size is not None:
        check_count("size", size, minimum=1)
    if stream is None:
        stream = (
            _can_stream(name)
            and not memory_need(
                name, data_dir=data_dir, num_train=num_train, num_test=num_test, size=size
            ).fits
        )
    if stream:
        result = _stream(name, tree, size=size, seed=seed, num_train=num_train, num_test=num_test)
        result = result.normalized() if normalize else result
        number = usual_workers() if workers is None else check_count("workers", workers, minimum=0)
        return _with_workers(result, number, skip_damaged=check_flag("skip_damaged", skip_damaged))
    if tree is not None:
        side = size or (entry(name).shape[1] if name in _IMAGE_TREES else _SIDE)
        drawn = folder(tree, size=side, num_train=num_train, num_test=num_test, seed=seed)
        dataset = replace(drawn, name=name)
    elif size is not None:
        raise UsageError(f"The size of {name} is fixed; only image folders can be resized.")
    else:
        whole = _whole(name, root, seed, is_cached=data_dir is None)
        dataset = whole.subset(num_train, num_test, seed=seed)
    return dataset.normalized() if normalize else dataset


def _image_tree(name: str, root: Path) -> Path | None:
    if name.startswith("folder:"):
        return check_path("folder", name.removeprefix("folder:")).expanduser()
    if name not in _IMAGE_TREES:
        return None
    for location in _IMAGE_TREES[name]:
        if (root / location).is_dir():
            return root / location
    raise UsageError(
        f"{name} is not in {root}; {how_to_get(name, data_dir=root)}, or name the folder of your own "
        f"copy with --data-dir."
    )


def memory_need(
    name: str,
    *,
    data_dir: Path | str | None = None,
    num_train: int | None = None,
    num_test: int | None = None,
    size: int | None = None,
) -> MemoryNeed:
    """How much memory a set takes, in memory and streamed, before anything is read.

    Arguments are those of `load`.

    Examples:
        >>> memory_need("digits").whole
        474408
    """
    root = data_folder(data_dir)
    tree = _image_tree(check_name("The name of the data set", name), root)
    if tree is not None:
        side = size or (entry(name).shape[1] if name in _IMAGE_TREES else _SIDE)
        shape: tuple[int, ...] = (3, side, side)
        train, test = map(len, image_folders(tree, size=side))
    elif name.startswith("npz:"):
        path = Path(name.removeprefix("npz:")).expanduser()
        (train, *rest), (test, *_) = array_shapes(path, ("x_train", "x_test"))
        shape = tuple(rest)
    elif name.startswith("idx:"):
        folder = Path(name.removeprefix("idx:")).expanduser()
        parts = [map_idx(folder / f"{p}-images-idx3-ubyte").shape for p in ("train", "t10k")]
        train, test, shape = parts[0][0], parts[1][0], parts[0][1:]
    else:
        result = entry(name)
        train, test, shape = result.num_train, result.num_test, result.shape
    kept = [
        n if wanted is None else min(n, wanted)
        for n, wanted in ((train, num_train), (test, num_test))
    ]
    return need_of(shape, sum(kept))


def _can_stream(name: str) -> bool:
    return name in _IMAGE_TREES or name.startswith(("folder:", "npz:", "idx:"))


def _stream(
    name: str,
    tree: Path | None,
    *,
    size: int | None,
    seed: int,
    num_train: int | None,
    num_test: int | None,
) -> DataSet:
    if tree is not None:
        side = size or (entry(name).shape[1] if name in _IMAGE_TREES else _SIDE)
        drawn = stream_folder(tree, size=side, num_train=num_train, num_test=num_test, seed=seed)
        return replace(drawn, name=name)
    kind, _, location = name.partition(":")
    if kind not in ("npz", "idx"):
        raise UsageError(
            f"{name} is small and is read whole; image folders, npz:PATH and idx:PATH can be streamed."
        )
    read = stream_npz if kind == "npz" else stream_idx
    return read(Path(location).expanduser(), seed=seed).subset(num_train, num_test, seed=seed)


def _with_workers(result: DataSet, workers: int, *, skip_damaged: bool) -> DataSet:
    train, test = (
        replace(inputs, workers=workers, skip_damaged=skip_damaged)
        for inputs in (result.train_inputs, result.test_inputs)
        if isinstance(inputs, Streamed)
    )
    return replace(result, train_inputs=train, test_inputs=test)


def _whole(name: str, root: Path, seed: int, *, is_cached: bool) -> DataSet:
    if name.startswith("npz:"):
        return npz(Path(name.removeprefix("npz:")).expanduser())
    if name.startswith("idx:"):
        streamed = stream_idx(Path(name.removeprefix("idx:")).expanduser(), seed=seed)
        train, test = streamed.in_memory()
        return replace(streamed, train_inputs=train, test_inputs=test)
    wanted = entry(name)
    if is_cached:
        # Formats without a length of their own would hide a file cut at the end of a record.
        for file in wanted.files:
            if (root / name / file.name).is_file():
                file.check_length(root / name)
    return _READERS[name](root, seed)
