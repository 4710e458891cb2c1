"""The mirrors' tools are replaced by scripts of the same name that bring small packages."""

import gzip
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


def test_cifar_batches_are_rebuilt_to_the_byte(tool, tmp_path, folder):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 12)
    content = tmp_path / "content"
    content.mkdir()
    members = []
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name in names:
        rows = images.transpose(0, 2, 3, 1).reshape(12, 1024, 3)
        Image.fromarray(rows).save(content / f"{name}.png")
        members.append((f"package/{name}.png", (content / f"{name}.png").read_bytes()))
    # Batches of the real package hold 10,000 labels each: pad the list so that slices fit.
    everything = [label for _ in range(5) for label in [*labels.tolist(), *[0] * 9988]]
    members += [
        ("package/train_lables.json", json.dumps(everything).encode()),
        ("package/test_lables.json", json.dumps(labels.tolist()).encode()),
    ]
    packed = tar_with(tmp_path / "c.tgz", *members)
    tool("npm", f"cp {packed} .")
    with pytest.raises(SourceFailed, match="not as expected"):
        npm_cifar_rows("c").obtain(folder, silent)  # 12 images, 10,000 labels

    for path in folder.iterdir():
        path.unlink() if path.is_file() else None
    rows = np.zeros((10_000, 1024, 3), np.uint8)
    rows[:12] = images.transpose(0, 2, 3, 1).reshape(12, 1024, 3)
    for name in names[:-1]:
        Image.fromarray(rows).save(content / f"{name}.png", compress_level=1)
    members = [(f"package/{n}.png", (content / f"{n}.png").read_bytes()) for n in names] + members[
        -2:
    ]
    tar_with(packed, *members)
    clean = tmp_path / "clean"
    clean.mkdir()
    npm_cifar_rows("c").obtain(clean, silent)
    assert (clean / "test_batch.bin").read_bytes() == encode_records(images, labels)
    assert (clean / "data_batch_3.bin").read_bytes()[: 12 * 3073] == encode_records(images, labels)
    assert sorted(path.name for path in clean.iterdir()) == sorted(f"{name}.bin" for name in names)


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
