import errno
import gzip
import hashlib
import tarfile

import pytest

from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.files import DiskFull
from bathyscope.data import fetch, sources
from bathyscope.data.catalog import CATALOG
from bathyscope.data.checksums import WrongChecksum
from bathyscope.data.sources import Source, SourceFailed, archive

from .conftest import CONTENTS, toy_entry


def _holds_toy(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS


def test_a_set_is_fetched_once_and_checked_afterwards(toy, server, tmp_path):
    result, said = [], []
    folder = fetch(
        "toy", data_dir=tmp_path, progress=lambda *a: result.append(a), report=said.append
    )
    assert folder == tmp_path / "toy"
    assert _holds_toy(folder)
    assert list(tmp_path.iterdir()) == [folder]
    assert result[-1] == ("two.gz", len(server.pages["two.gz"]), len(server.pages["two.gz"]))
    requests = server.num_requests
    fetch("toy", data_dir=tmp_path, report=said.append)
    assert server.num_requests == requests
    assert "already" in said[-1]


def test_a_damaged_copy_is_replaced(toy, tmp_path):
    folder = fetch("toy", data_dir=tmp_path)
    (folder / "one").write_bytes(CONTENTS["one"][::-1])
    said = []
    fetch("toy", data_dir=tmp_path, report=said.append)
    assert _holds_toy(folder)
    assert "replaced" in said[0]


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        ("wrong", WrongChecksum, "is right"),
        ("cut", BathyscopeError, "ended after"),
        ("absent", BathyscopeError, "Not Found"),
        ("damaged gzip", WrongChecksum, "two.gz is truncated or damaged"),
    ],
)
def test_a_bad_source_leaves_nothing_and_the_next_fetch_succeeds(
    toy, server, tmp_path, fault, kind, text
):
    right = dict(server.pages)
    if fault == "wrong":
        server.pages["two.gz"] = gzip.compress(CONTENTS["two"][::-1])
    elif fault == "cut":
        server.cut.add("two.gz")
    elif fault == "absent":
        del server.pages["two.gz"]
    else:
        server.pages["two.gz"] = right["two.gz"][:-20]
    with pytest.raises(kind, match=text) as raised:
        fetch("toy", data_dir=tmp_path)
    assert raised.value.exit_code == (2 if kind is WrongChecksum else 1)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    server.pages, server.cut = right, set()
    assert _holds_toy(fetch("toy", data_dir=tmp_path))


def test_the_sources_are_tried_in_turn_and_the_checksum_decides(toy, tmp_path, monkeypatch):
    def unreachable(folder, progress):
        raise SourceFailed("nobody home")

    def wrong(folder, progress):
        for name, content in CONTENTS.items():
            (folder / name).write_bytes(bytes(len(content)))

    mirrors = (Source("first", unreachable), Source("second", wrong))
    monkeypatch.setitem(CATALOG, "toy", toy_entry(*mirrors, *toy.sources))
    said = []
    assert _holds_toy(fetch("toy", data_dir=tmp_path, report=said.append))
    assert len(said) == 4
    monkeypatch.setitem(CATALOG, "toy", toy_entry(*mirrors))
    with pytest.raises(WrongChecksum, match=r"first: nobody home; second: .* md5"):
        fetch("toy", data_dir=tmp_path / "other")


def test_an_official_archive_is_checked_before_it_is_unpacked(server, tmp_path, monkeypatch):
    packed = tmp_path / "toy.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        for name, content in CONTENTS.items():
            (tmp_path / name).write_bytes(content)
            tar.add(tmp_path / name, f"toy-files/{name}")
    md5 = hashlib.md5(packed.read_bytes()).hexdigest()
    server.pages["toy.tar.gz"] = packed.read_bytes()
    for digest, is_right in ((md5, True), ("0" * 32, False)):
        source = archive(server.address + "toy.tar.gz", md5=digest, names=tuple(CONTENTS))
        monkeypatch.setitem(CATALOG, "toy", toy_entry(source))
        if is_right:
            assert _holds_toy(fetch("toy", data_dir=tmp_path / "cache"))
        else:
            with pytest.raises(WrongChecksum, match=md5):
                fetch("toy", data_dir=tmp_path / "second")


def test_a_copy_on_this_machine_serves_instead_of_the_net(toy, server, tmp_path):
    copy = tmp_path / "copy" / "deep"
    copy.mkdir(parents=True)
    (copy / "one.gz").write_bytes(gzip.compress(CONTENTS["one"]))
    (copy / "two").write_bytes(CONTENTS["two"])
    assert _holds_toy(fetch("toy", data_dir=tmp_path / "cache", source=tmp_path / "copy"))
    assert server.num_requests == 0
    (copy / "two").unlink()
    with pytest.raises(UsageError, match="holds no two"):
        fetch("toy", data_dir=tmp_path / "other", source=tmp_path / "copy")
    with pytest.raises(UsageError, match="no file or folder"):
        fetch("toy", data_dir=tmp_path / "other", source=tmp_path / "nothing")
    assert list((tmp_path / "other").iterdir()) == []


def test_a_full_disk_stops_at_once(toy, server, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sources, "copy_limited", full)
    with pytest.raises(DiskFull, match="no room"):
        fetch("toy", data_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_files_needs_no_fetch(tmp_path):
    with pytest.raises(UsageError, match="needs no download"):
        fetch("digits", data_dir=tmp_path)
