import re

import pytest

from bathyscope.core.errors import UnknownName
from bathyscope.data import entry, is_present, load, names
from bathyscope.data.catalog import CATALOG


@pytest.mark.parametrize("name", names())
def test_every_entry_is_complete(name):
    result = entry(name)
    assert result.name == name
    assert result.origin
    assert result.license
    for file in result.files:
        assert re.fullmatch(r"([0-9a-f]{32})?", file.md5)
        assert re.fullmatch(r"([0-9a-f]{64})?", file.sha256)
        assert file.num_bytes > 0
    if result.sources:
        has_pins = bool(result.files) and all(file.sha256 and file.md5 for file in result.files)
        assert has_pins or re.fullmatch(r"[0-9a-f]{32}", result.archive_md5)


@pytest.mark.parametrize("name", names())
def test_an_entry_says_what_load_gives(name):
    result = entry(name)
    if name in ("tiny-imagenet", "imagenet") or not is_present(name):
        pytest.skip(f"{name} has not been fetched")
    dataset = load(name)
    assert dataset.name == name
    assert dataset.shape == result.shape
    assert dataset.num_classes == result.num_classes
    assert (len(dataset.train_labels), len(dataset.test_labels)) == (
        result.num_train,
        result.num_test,
    )
    assert len(dataset.train_labels.unique()) == result.num_classes


def test_no_two_pinned_files_are_the_same():
    digests = [file.sha256 for result in CATALOG.values() for file in result.files if file.sha256]
    assert len(set(digests)) == len(digests) == 14


def test_an_unknown_name_says_what_to_do():
    with pytest.raises(UnknownName, match=r"mnist.*data list"):
        entry("mnst")
