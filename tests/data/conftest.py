"""A small set of two files, `toy`, that can be fetched from the local server."""

import gzip
import hashlib

import pytest

from bathyscope.data.catalog import CATALOG, Entry
from bathyscope.data.checksums import File
from bathyscope.data.sources import gzipped_files

CONTENTS = {"one": b"first file " * 5000, "two": bytes(range(256)) * 300}


def toy_entry(*sources):
    files = tuple(
        File(
            name,
            len(content),
            md5=hashlib.md5(content).hexdigest(),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        for name, content in CONTENTS.items()
    )
    return Entry("toy", (1, 1, 1), 2, 1, 1, "the tests", "none", files=files, sources=sources)


@pytest.fixture
def toy(server, monkeypatch):
    """The set `toy` in the catalog, fetched from the local server."""
    server.pages = {f"{name}.gz": gzip.compress(content) for name, content in CONTENTS.items()}
    entry = toy_entry(gzipped_files(server.address, tuple(CONTENTS)))
    monkeypatch.setitem(CATALOG, "toy", entry)
    return entry
