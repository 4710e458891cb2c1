import pytest

from bathyscope.core.errors import UsageError
from bathyscope.data.sources import SourceFailed, download, local_copy, unpack_named

from .test_archives import tar_with


def silent(*_):
    pass


def test_a_download_tells_of_its_progress(server, tmp_path):
    server.pages["big"] = bytes(1_000_000)
    result = []
    download(server.address + "big", tmp_path / "big", progress=lambda *a: result.append(a))
    assert (tmp_path / "big").read_bytes() == server.pages["big"]
    done = [bytes_so_far for _, bytes_so_far, _ in result]
    assert done == sorted(done)
    assert result[-1] == ("big", 1_000_000, 1_000_000)
    assert len(result) > 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/nobody", "nonsense://x"])
def test_what_cannot_be_reached_is_a_failed_source(tmp_path, address):
    with pytest.raises(SourceFailed):
        download(address, tmp_path / "x", progress=silent)


def test_an_archive_is_flattened_to_the_named_files(tmp_path):
    packed = tar_with(tmp_path / "a.tar.gz", ("deep/one", b"1"), ("deep/er/two", b"2"), ("x", b"3"))
    folder = tmp_path / "out"
    folder.mkdir()
    unpack_named(packed, folder, names=["one", "two"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"one": b"1", "two": b"2"}
    with pytest.raises(UsageError, match=r"a\.tar\.gz holds no three"):
        unpack_named(packed, folder, names=["three"])


def test_all_files_are_kept_where_none_is_named(tmp_path):
    members = [("tree/train/a/1.png", b"1"), ("unpacked/words.txt", b"2")]
    packed = tar_with(tmp_path / "a.tar.gz", *members)
    origin = packed
    for folder in (tmp_path / "from-archive", tmp_path / "from-folder"):
        folder.mkdir()
        local_copy(origin, names=()).obtain(folder, silent)
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {str(path.relative_to(folder)): path.read_bytes() for path in files} == dict(members)
        origin = folder
