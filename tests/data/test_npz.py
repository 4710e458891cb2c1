import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.data import load
from bathyscope.data.npz import npz

X, Y = np.full((6, 5, 4), 51, np.uint8), np.array([0, 1, 2, 0, 1, 2])
ARRAYS = {"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]}


def saved(tmp_path, **changes):
    path = tmp_path / "mine.npz"
    arrays = {key: value for key, value in {**ARRAYS, **changes}.items() if value is not None}
    np.savez_compressed(path, **arrays)
    return path


def test_bytes_become_floats_between_zero_and_one(tmp_path):
    dataset = load(f"npz:{saved(tmp_path)}")
    assert dataset.shape == (1, 5, 4)
    assert dataset.num_classes == 3
    torch.testing.assert_close(dataset.train_inputs, torch.full((6, 1, 5, 4), 0.2))
    assert dataset.test_labels.tolist() == [0, 1, 2]


def test_floats_and_channels_are_taken_as_they_are(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 2, 5, 4))
    dataset = load(f"npz:{saved(tmp_path, x_train=x, x_test=x, y_test=Y[:, None])}")
    torch.testing.assert_close(dataset.train_inputs, torch.from_numpy(x).float())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"y_test": None}, "lacks y_test"),
        ({"y_train": Y[:5]}, "6 images but 5 labels"),
        ({"y_train": Y.astype(float)}, "integers"),
        ({"y_train": Y - 1}, "integers from 0"),
        ({"x_train": X.reshape(6, 20)}, "n×h×w"),
        ({"x_test": X[:3, :4]}, "alike"),
        ({"x_train": np.array([{}] * 6, dtype=object)}, "no .npz file"),
    ],
)
def test_wrong_contents_are_one_sentence(tmp_path, changes, text):
    path = saved(tmp_path, **changes)
    with pytest.raises(UsageError, match=text) as raised:
        load(f"npz:{path}")
    assert str(path) in str(raised.value)


def test_damage_is_one_sentence(tmp_path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:100], whole[:-30], whole[:60] + b"\xff" * 20 + whole[80:]):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="truncated, damaged") as raised:
            load(f"npz:{path}")
        assert "\n" not in str(raised.value)
    np.save(path.with_suffix(".npy"), X)
    with pytest.raises(UsageError, match=r"no \.npz file"):
        load(f"npz:{path.with_suffix('.npy')}")
    with pytest.raises(UsageError, match="No such file"):
        load(f"npz:{tmp_path / 'nothing.npz'}")


def test_a_pickle_in_place_of_an_archive_is_not_run(tmp_path):
    class Runs:
        def __reduce__(self):
            return open, (str(tmp_path / "it-ran"), "w")

    path = tmp_path / "evil.npz"
    path.write_bytes(pickle.dumps(Runs()))
    with pytest.raises(UsageError):
        load(f"npz:{path}")
    assert not (tmp_path / "it-ran").exists()


def test_an_array_that_claims_terabytes_is_refused_before_room_is_made(tmp_path):
    path = tmp_path / "bomb.npz"
    small = io.BytesIO()
    np.save(small, np.zeros(3, np.int64))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 8, 8)}
    )
    with zipfile.ZipFile(path, "w") as zipped:
        for key in ("y_train", "x_test", "y_test"):
            zipped.writestr(f"{key}.npy", small.getvalue())
        zipped.writestr("x_train.npy", header.getvalue())
    with pytest.raises(UsageError, match=r"x_train in .* claims 562,949,953,421,312 bytes"):
        npz(path)
