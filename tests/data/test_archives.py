import io
import tarfile
import zipfile

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.data.archives import is_archive, read_members, unpack


def tar_with(path, *members):
    """A tar.gz of (name, content) files and ready-made TarInfo members."""
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_with(path, *members):
    with zipfile.ZipFile(path, "w") as zipped:
        for name, content in members:
            zipped.writestr(name, content)
    return path


GOOD = ("set/batch.bin", b"data")


@pytest.mark.parametrize("make", [tar_with, zip_with])
def test_files_are_unpacked_and_read(tmp_path, make):
    archive = make(tmp_path / "archive", GOOD, ("set/deep/other", b"more"))
    assert is_archive(archive)
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/set/batch.bin").read_bytes() == b"data"
    assert (tmp_path / "out/set/deep/other").read_bytes() == b"more"
    assert read_members(archive, ["other", "absent"]) == {"other": b"more"}


HARMFUL = {
    "climbs": ("../evil", b"x"),
    "climbs from within": ("set/../../evil", b"x"),
    "absolute": ("/tmp/evil-of-bathyscope-tests", b"x"),
    "windows drive": ("C:/evil", b"x"),
    "backslashes": ("..\\evil", b"x"),
}


@pytest.mark.parametrize("make", [tar_with, zip_with])
@pytest.mark.parametrize("harm", HARMFUL)
def test_a_member_that_leaves_the_folder_is_refused_and_nothing_remains(tmp_path, make, harm):
    home = tmp_path / "home"
    home.mkdir()
    archive = make(home / "archive", GOOD, HARMFUL[harm])
    with pytest.raises(UsageError, match="outside its folder") as raised:
        unpack(archive, home / "out")
    assert str(archive) in str(raised.value)
    with pytest.raises(UsageError, match="outside its folder"):
        read_members(archive, ["batch.bin"])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["archive", "home"]


@pytest.mark.parametrize(
    "member",
    [
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("link", tarfile.SYMTYPE, "set"),
        special("hard", tarfile.LNKTYPE, "set/batch.bin"),
        special("device", tarfile.CHRTYPE),
        special("pipe", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_are_refused_and_nothing_remains(tmp_path, member):
    archive = tar_with(tmp_path / "archive.tar.gz", GOOD, member)
    with pytest.raises(UsageError, match="a link or a device"):
        unpack(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["archive.tar.gz"]


def test_a_symbolic_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    archive = zip_with(tmp_path / "archive.zip", (info, "/etc/passwd"))
    with pytest.raises(UsageError, match="a link or a device"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [tar_with, zip_with])
def test_a_cut_or_damaged_archive_is_refused_and_nothing_remains(tmp_path, make):
    archive = make(tmp_path / "archive", ("set/a", bytes(range(256)) * 400), GOOD)
    whole = archive.read_bytes()
    middle = len(whole) // 2
    for content in (
        b"",
        whole[:10],
        whole[:middle],
        whole[:middle] + b"\xff" * (len(whole) - middle),
    ):
        archive.write_bytes(content)
        with pytest.raises(UsageError, match="truncated, damaged") as raised:
            unpack(archive, tmp_path / "out")
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["tar", "zip", "lying zip"])
def test_an_archive_that_unpacks_to_gigabytes_is_refused_and_nothing_remains(tmp_path, kind):
    bomb, zeros = tmp_path / "bomb", bytes(1 << 20)
    if kind == "tar":
        with tarfile.open(bomb, "w:gz") as tar:
            for number in range(12):
                info = tarfile.TarInfo(f"f{number}")
                info.size = len(zeros)
                tar.addfile(info, io.BytesIO(zeros))
    else:
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as zipped:
            for number in range(12):
                zipped.writestr(f"f{number}", zeros)
    if kind == "lying zip":  # each member says that it is empty
        size = (1 << 20).to_bytes(4, "little")
        bomb.write_bytes(bomb.read_bytes().replace(size, bytes(4)))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(UsageError, match=r"unpacks to more than 10 MiB|truncated, damaged"):
        unpack(bomb, tmp_path / "into", most_bytes=10 << 20)
    assert not (tmp_path / "into").exists()
    if kind != "lying zip":
        unpack(bomb, tmp_path / "into", most_bytes=12 << 20)


def test_a_set_of_known_files_takes_no_more_than_twice_their_size(tmp_path):
    from bathyscope.data import fetch

    with tarfile.open(tmp_path / "bomb.tgz", "w:gz") as tar:
        info = tarfile.TarInfo("train-images-idx3-ubyte")
        info.size = 130 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    with pytest.raises(UsageError, match="unpacks to more than 105 MiB"):
        fetch("mnist", data_dir=tmp_path / "cache", source=tmp_path / "bomb.tgz")
    assert not list((tmp_path / "cache").iterdir())
