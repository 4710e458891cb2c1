import gzip
import struct

import numpy as np
import pytest

from bathyscope.core.errors import UsageError
from bathyscope.data.idx import read_idx


def encoded(array, code=0x08, kind=">u1"):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(kind).tobytes()


IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)


@pytest.mark.parametrize("packed", [False, True])
def test_images_come_back_whatever_the_file_is_called(tmp_path, packed):
    content = encoded(IMAGES)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(content) if packed else content)
    np.testing.assert_array_equal(read_idx(path), IMAGES)


@pytest.mark.parametrize(
    ("code", "kind"), [(0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
def test_every_element_type_is_read_big_endian(tmp_path, code, kind):
    array = np.array([[1, -2], [100, 7]])
    path = tmp_path / "array"
    path.write_bytes(encoded(array, code, kind))
    result = read_idx(path)
    np.testing.assert_array_equal(result, array)
    assert result.dtype == np.dtype(kind).newbyteorder("=")


WHOLE = encoded(IMAGES)
FAULTS = {
    "empty": (b"", "begins with nothing"),
    "text": (b"<html>not found</html>", "not an idx file"),
    "wrong type": (bytes([0, 0, 7, 1, 0, 0, 0, 0]), "not an idx file"),
    "cut in the header": (WHOLE[:9], "within its header"),
    "cut in the data": (WHOLE[:-1], "promises 76 bytes, there are 75"),
    "trailing byte": (WHOLE + b"\0", "bytes after its end"),
    "monstrous shape": (bytes([0, 0, 8, 3]) + b"\xff" * 12, "truncated"),
    "cut gzip": (gzip.compress(WHOLE)[:-5], "gzip"),
    "flipped gzip": (gzip.compress(WHOLE)[:-8] + b"\0" * 8, "gzip"),
    "gzip header alone": (b"\x1f\x8b\x00\x00", "gzip"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_one_sentence_with_its_name(tmp_path, fault):
    content, text = FAULTS[fault]
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=text) as raised:
        read_idx(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_idx(tmp_path / "nothing")
