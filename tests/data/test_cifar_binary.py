import numpy as np
import pytest

from bathyscope.core.errors import UsageError
from bathyscope.data.cifar_binary import decode_records
from tests.data.pack_sets import encode_records


def _records(n, num_labels):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, (n, num_labels), dtype=np.uint8)
    content = b"".join(
        bytes(labels[i]) + images[i, 0].tobytes() + images[i, 1].tobytes() + images[i, 2].tobytes()
        for i in range(n)
    )
    return images, labels, content


def test_cifar_10_records_are_label_red_green_blue():
    images, labels, content = _records(4, 1)
    decoded, classes = decode_records(content, 10, origin="batch")
    np.testing.assert_array_equal(decoded, images)
    np.testing.assert_array_equal(classes, labels[:, 0])
    assert encode_records(decoded, classes) == content


def test_cifar_100_records_give_the_fine_label():
    images, labels, content = _records(4, 2)
    decoded, classes = decode_records(content, 100, origin="train.bin")
    np.testing.assert_array_equal(decoded, images)
    np.testing.assert_array_equal(classes, labels[:, 1])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "0 bytes"),
        (bytes(3072), "whole number of records"),
        (bytes(3073 + 1), "whole number of records"),
        (bytes([10]) + bytes(3072), "label 10"),
    ],
)
def test_a_damaged_batch_is_refused_by_name(content, text):
    with pytest.raises(UsageError, match=text) as raised:
        decode_records(content, 10, origin="data_batch_3.bin")
    assert "data_batch_3.bin" in str(raised.value)
