import re

import pytest

from bathyscope.core.errors import UnknownName
from bathyscope.data import entry, is_present, load, names
from bathyscope.data.catalog import CATALOG


@pytest.mark.parametrize("name", names())
def test_every_entry_is_complete(name):
    found = entry(name)
    assert found.name == name
    assert found.origin
    assert found.licence
    for file in found.files:
        assert re.fullmatch(r"([0-9a-f]{32})?", file.md5)
        assert re.fullmatch(r"([0-9a-f]{64})?", file.sha256)
        assert file.num_bytes > 0
    if found.sources:
        has_pins = bool(found.files) and all(file.sha256 and file.md5 for file in found.files)
        assert has_pins or re.fullmatch(r"[0-9a-f]{32}", found.archive_md5)


@pytest.mark.parametrize("name", names())
def test_an_entry_says_what_load_gives(name):
    found = entry(name)
    if name in ("tiny-imagenet", "imagenet") or not is_present(name):
        pytest.skip(f"{name} has not been fetched")
    dataset = load(name)
    assert dataset.name == name
    assert dataset.shape == found.shape
    assert dataset.num_classes == found.num_classes
    assert (len(dataset.train_labels), len(dataset.test_labels)) == (
        found.num_train,
        found.num_test,
    )
    assert len(dataset.train_labels.unique()) == found.num_classes


def test_no_two_pinned_files_are_the_same():
    digests = [file.sha256 for found in CATALOG.values() for file in found.files if file.sha256]
    assert len(set(digests)) == len(digests) == 14


def test_an_unknown_name_says_what_to_do():
    with pytest.raises(UnknownName, match=r"mnist.*data list"):
        entry("mnst")
