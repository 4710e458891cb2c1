import hashlib

import pytest

from bathyscope.data.checksums import File, WrongChecksum

RIGHT = b"right"
MD5, SHA256 = hashlib.md5(RIGHT).hexdigest(), hashlib.sha256(RIGHT).hexdigest()


def test_the_right_file_passes(tmp_path):
    (tmp_path / "file").write_bytes(RIGHT)
    File("file", 5, md5=MD5, sha256=SHA256).check(tmp_path)


@pytest.mark.parametrize(
    ("content", "file", "text"),
    [
        (b"wrong", File("file", 5, md5=MD5), f"md5 {hashlib.md5(b'wrong').hexdigest()}"),
        (b"wrong", File("file", 5, sha256=SHA256), f"{SHA256} is right"),
        (b"righ", File("file", 5), "4 bytes where 5"),
        (RIGHT, File("other", 5), "missing"),
    ],
)
def test_another_file_is_refused(tmp_path, content, file, text):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(WrongChecksum, match=text):
        file.check(tmp_path)
