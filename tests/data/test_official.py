import gzip

import numpy as np
import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.data import load
from tests.data.pack_sets import encode_records

from .test_archives import tar_with
from .test_cifar_pickle import official
from .test_idx import encoded

RANDOM = np.random.default_rng(0)
TRAIN, TEST = (RANDOM.integers(0, 256, (n, 28, 28), dtype=np.uint8) for n in (7, 3))
TRAIN_LABELS, TEST_LABELS = np.arange(7), np.arange(3)


def write_idx(folder, *, packed=False, train_labels=TRAIN_LABELS):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in {
        "train-images-idx3-ubyte": TRAIN,
        "train-labels-idx1-ubyte": train_labels,
        "t10k-images-idx3-ubyte": TEST,
        "t10k-labels-idx1-ubyte": TEST_LABELS,
    }.items():
        content = encoded(np.asarray(array, np.uint8))
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("mnist", "mnist"),
        ("mnist", "."),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "FashionMNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
    ],
)
def test_idx_sets_are_found_where_tools_keep_them(tmp_path, packed, name, location):
    write_idx(tmp_path / location, packed=packed)
    dataset = load(name, data_dir=tmp_path)
    torch.testing.assert_close(dataset.train_inputs[:, 0], torch.from_numpy(TRAIN).float() / 255)
    assert dataset.train_labels.tolist() == TRAIN_LABELS.tolist()
    assert dataset.test_inputs.shape == (3, 1, 28, 28)


def test_labels_that_do_not_fit_the_images_are_refused(tmp_path):
    write_idx(tmp_path, train_labels=np.arange(6))
    with pytest.raises(UsageError, match=r"\(6,\).*\(7, 28, 28\)"):
        load("mnist", data_dir=tmp_path)
    write_idx(tmp_path, train_labels=np.full(7, 10))
    with pytest.raises(UsageError, match="label 10"):
        load("mnist", data_dir=tmp_path)


PARTS = {
    "cifar-10": [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"],
    "cifar-100": ["train", "test"],
}
IMAGES = RANDOM.integers(0, 256, (6, 2, 3, 32, 32), dtype=np.uint8)


def cifar_files(name, kind):
    """The official files of two images per part: part i is labeled i and i + 1."""
    files = {}
    for i, part in enumerate(PARTS[name]):
        labels = np.array([i, i + 1])
        if kind == "binary":
            content = encode_records(IMAGES[i], labels)
            if name == "cifar-100":  # a coarse label before the fine one
                records = [content[:3073], content[3073:]]
                content = b"".join(b"\x07" + record for record in records)
            files[f"{part}.bin"] = content
        else:
            key = b"labels" if name == "cifar-10" else b"fine_labels"
            files[part] = official({b"data": IMAGES[i].reshape(2, 3072), key: labels.tolist()})
    return files


@pytest.mark.parametrize("name", ["cifar-10", "cifar-100"])
@pytest.mark.parametrize("kind", ["binary", "python"])
@pytest.mark.parametrize("packing", ["folder", "archive"])
def test_cifar_is_read_in_every_official_form(tmp_path, name, kind, packing):
    files = cifar_files(name, kind)
    inner = {"cifar-10binary": "cifar-10-batches-bin", "cifar-10python": "cifar-10-batches-py"}
    folder = inner.get(name + kind, f"{name}-{kind}")
    if packing == "folder":
        (tmp_path / folder).mkdir()
        for file, content in files.items():
            (tmp_path / folder / file).write_bytes(content)
    else:
        members = [(f"{folder}/{file}", content) for file, content in files.items()]
        tar_with(tmp_path / f"{name}-{kind}.tar.gz", *members)
    dataset = load(name, data_dir=tmp_path)
    last = len(files) - 1
    expected = torch.from_numpy(IMAGES[:last].reshape(-1, 3, 32, 32)).float() / 255
    torch.testing.assert_close(dataset.train_inputs, expected)
    assert dataset.train_labels.tolist() == [i + k for i in range(last) for k in (0, 1)]
    assert dataset.test_labels.tolist() == [last, last + 1]
    assert dataset.num_classes == int(name.removeprefix("cifar-"))


def test_a_hostile_batch_or_archive_is_refused(tmp_path):
    files = cifar_files("cifar-10", "python")
    files["data_batch_2"] = b"cos\nsystem\n(S'touch IT'\ntR."
    (tmp_path / "one").mkdir()
    tar_with(tmp_path / "one" / "cifar-10-python.tar.gz", *files.items())
    with pytest.raises(UsageError, match=r"data_batch_2 in .*os\.system"):
        load("cifar-10", data_dir=tmp_path / "one")
    (tmp_path / "two").mkdir()
    tar_with(tmp_path / "two" / "cifar-10-binary.tar.gz", ("../evil", b"x"))
    with pytest.raises(UsageError, match="outside its folder"):
        load("cifar-10", data_dir=tmp_path / "two")


@pytest.mark.parametrize(
    "name", ["mnist", "fashion-mnist", "cifar-10", "cifar-100", "tiny-imagenet"]
)
def test_a_missing_set_says_how_to_get_it(tmp_path, name):
    with pytest.raises(UsageError, match=f"data fetch {name}"):
        load(name, data_dir=tmp_path)


def test_a_cached_file_of_another_length_is_refused_even_at_a_record_boundary(
    tmp_path, monkeypatch
):
    (tmp_path / "cifar-10").mkdir()
    for file, content in cifar_files("cifar-10", "binary").items():
        (tmp_path / "cifar-10" / file).write_bytes(content)
    assert len(load("cifar-10", data_dir=tmp_path).test_labels) == 2
    monkeypatch.setenv("BATHYSCOPE_DATA", str(tmp_path))
    with pytest.raises(UsageError, match="6146 bytes where 30730000"):
        load("cifar-10")
