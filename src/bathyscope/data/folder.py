"""Folders of images, one folder per class: ImageNet's layout, Tiny-ImageNet's, and the plain one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from bathyscope.core.errors import UsageError
from bathyscope.data.dataset import DataSet, image_set

_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".tif", ".tiff"}
_TEST_NAMES = ("val", "validation", "test")


@dataclass(frozen=True)
class ImageFolder:
    """Labeled image files, read one by one when indexed: give it to a `DataLoader`.

    Attributes:
        files: the images.
        labels: the class of each.
        class_names: the folder names of the classes, in order.
        size: side of the square images it returns.
    """

    files: tuple[Path, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    size: int

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Float32[Tensor, " 3 size size"], int]:
        """The image, its shorter side brought to `size` and the middle kept, and its class."""
        return torch.from_numpy(pixels(self.files[index], self.size)).float().div_(255), (
            self.labels[index]
        )

    def images_at(self, indices: Sequence[int]) -> Float32[Tensor, " n 3 size size"]:
        """The images at `indices` in memory."""
        images = torch.empty(len(indices), 3, self.size, self.size)
        for row, index in enumerate(indices):
            images[row] = self[index][0]
        return images


def image_folders(root: Path, *, size: int) -> tuple[ImageFolder, ImageFolder]:
    """The training and the test images below a folder; no image is read yet.

    Three layouts are known: `train/CLASS/*` beside `val/CLASS/*` (or `validation`, `test`), as for
    ImageNet; `train/CLASS/images/*` beside `val/images/*` with `val/val_annotations.txt`, as for
    Tiny-ImageNet; and `CLASS/*` without a split, of which every fifth image of each class, by name,
    is kept for the test.

    Raises:
        UsageError: none of the layouts fits.
    """
    if size < 1:
        raise UsageError(f"The image size is {size}; give a number of pixels above zero.")
    if not root.is_dir():
        raise UsageError(f"There is no folder {root}.")
    if not (root / "train").is_dir():
        return _split(_by_class(root, _class_names(root), size))
    names = _class_names(root / "train")
    train = _by_class(root / "train", names, size)
    for name in _TEST_NAMES:
        test = root / name
        if (test / f"{name}_annotations.txt").is_file():
            return train, _by_annotation(test, names, size)
        if test.is_dir() and any((test / class_name).is_dir() for class_name in names):
            return train, _by_class(test, names, size)
    raise UsageError(
        f"{root} has a folder train but no labeled val, validation or test beside it; add one "
        f"with the same class folders."
    )


def folder(
    root: Path,
    *,
    size: int = 64,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
) -> DataSet:
    """The images below a folder, in memory; only those that are kept are read.

    Args:
        root: see `image_folders` for the layouts.
        size: side of the square images.
        num_train: training images to keep, drawn at random; all for None.
        num_test: test images to keep, drawn at random; all for None.
        seed: of the draw.

    Raises:
        UsageError: no layout fits, or an image is damaged.
    """
    train, test = image_folders(root, size=size)
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for part, count in ((train, num_train), (test, num_test)):
        kept = draw_images(part, count, generator)
        parts.append((part.images_at(kept), torch.tensor([part.labels[i] for i in kept])))
    return image_set(f"folder:{root}", parts[0], parts[1], num_classes=len(train.class_names))


def pixels(file: Path, size: int) -> UInt8[np.ndarray, " 3 size size"]:
    """An image file as bytes, its shorter side brought to `size` and the middle kept.

    Raises:
        UsageError: it is missing or damaged.
    """
    from PIL import Image  # only image folders need it

    try:
        with Image.open(file) as image:
            picture = image.convert("RGB")
            if picture.size != (size, size):
                width, height = picture.size
                scale = size / min(width, height)
                wide, high = max(size, round(width * scale)), max(size, round(height * scale))
                left, top = (wide - size) // 2, (high - size) // 2
                picture = picture.resize((wide, high), Image.Resampling.BILINEAR)
                picture = picture.crop((left, top, left + size, top + size))
            return np.array(picture).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        # SyntaxError is what Pillow raises for a broken PNG.
        raise UsageError(
            f"{file} is not a readable image ({error}); replace or remove it."
        ) from error


def _class_names(root: Path) -> tuple[str, ...]:
    names = tuple(
        sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    )
    if not names:
        raise UsageError(f"{root} has no class folders; put the images of each class in one.")
    return names


def _images_below(folder: Path) -> list[Path]:
    inner = folder / "images"  # Tiny-ImageNet's extra level
    folder = inner if inner.is_dir() else folder
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)


def _by_class(root: Path, names: tuple[str, ...], size: int) -> ImageFolder:
    result = [
        (file, label) for label, name in enumerate(names) for file in _images_below(root / name)
    ]
    if not result:
        raise UsageError(f"The class folders of {root} hold no images (such as .jpg or .png).")
    files, labels = zip(*result, strict=True)
    return ImageFolder(files, labels, names, size)


def _by_annotation(root: Path, names: tuple[str, ...], size: int) -> ImageFolder:
    """Tiny-ImageNet's validation images: a line `FILE<tab>CLASS<tab>box` each."""
    annotations = root / f"{root.name}_annotations.txt"
    label_of = {name: label for label, name in enumerate(names)}
    files, labels = [], []
    for number, line in enumerate(annotations.read_text().splitlines(), start=1):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in label_of or Path(fields[0]).name != fields[0]:
            raise UsageError(
                f"Line {number} of {annotations} is {line!r}; it should be a file name, a tab and "
                f"a class with a folder below train."
            )
        files.append(root / "images" / fields[0])
        labels.append(label_of[fields[1]])
    if not files:
        raise UsageError(f"{annotations} is empty; fetch the set again.")
    return ImageFolder(tuple(files), tuple(labels), names, size)


def _split(everything: ImageFolder) -> tuple[ImageFolder, ImageFolder]:
    seen: dict[int, int] = {}
    parts: tuple[list[int], list[int]] = ([], [])
    for index, label in enumerate(everything.labels):
        seen[label] = seen.get(label, 0) + 1
        parts[seen[label] % 5 == 0].append(index)
    if not parts[1]:
        raise UsageError(
            "Every class has fewer than five images, too few to keep some for the test."
        )
    train, test = (
        ImageFolder(
            tuple(everything.files[index] for index in part),
            tuple(everything.labels[index] for index in part),
            everything.class_names,
            everything.size,
        )
        for part in parts
    )
    return train, test


def draw_images(part: ImageFolder, wanted: int | None, generator: torch.Generator) -> list[int]:
    """So many images of a part, drawn at random; all of them for None."""
    if wanted is None:
        return list(range(len(part)))
    if not 1 <= wanted <= len(part):
        raise UsageError(f"{wanted} images were asked for; choose between 1 and {len(part)}.")
    return torch.randperm(len(part), generator=generator)[:wanted].tolist()
