import io
import os
import pickle
import struct

import numpy as np
import pytest

from bathyscope.core.errors import UsageError
from bathyscope.data.cifar_pickle import decode_pickle


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings: the opcodes of the official batches."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, text):
        if len(text) < 256:
            self.write(pickle.SHORT_BINSTRING + bytes([len(text)]) + text)
        else:
            self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch[bytes] = save_string

    def save_global(self, obj, name=None):
        module = "numpy.core.multiarray" if obj.__name__ == "_reconstruct" else obj.__module__
        self.write(pickle.GLOBAL + f"{module}\n{name or obj.__name__}\n".encode())
        self.memoize(obj)

    dispatch[type] = save_global
    dispatch[type(np.empty(0).__reduce__()[0])] = save_global
    dispatch[type(len)] = save_global


def official(batch):
    """The batch as Python 2's cPickle would have written it, protocol 2."""
    sink = io.BytesIO()
    Python2Pickler(sink, 2).dump(batch)
    return sink.getvalue()


def batch(n=3, key=b"labels"):
    random = np.random.default_rng(0)
    return {
        b"data": random.integers(0, 256, (n, 3072), dtype=np.uint8),
        key: [3, 1, 4][:n],
        b"batch_label": b"training batch 1 of 5",
        b"filenames": [b"x.png"] * n,
    }


@pytest.mark.parametrize(
    "write", [official, lambda b: pickle.dumps(b, 3), lambda b: pickle.dumps(b, 4)]
)
def test_a_batch_is_read_as_python_2_and_3_write_it(write):
    images, labels = decode_pickle(write(batch()), 10, origin="data_batch_1")
    np.testing.assert_array_equal(images.reshape(3, 3072), batch()[b"data"])
    assert labels.tolist() == [3, 1, 4]


def test_cifar_100_gives_the_fine_labels():
    content = official({**batch(key=b"fine_labels"), b"coarse_labels": [9, 9, 9]})
    assert decode_pickle(content, 100, origin="train")[1].tolist() == [3, 1, 4]


class Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_does_not(tmp_path, protocol):
    proof = tmp_path / "it-ran"
    for call in (
        Runs(os.system, f"touch {proof}"),
        Runs(open, str(proof), "w"),
        Runs(eval, f"open({str(proof)!r}, 'w')"),
        Runs(getattr, os, "system"),
    ):
        try:
            content = pickle.dumps({**batch(), b"evil": call}, protocol)
        except (TypeError, pickle.PicklingError):
            continue  # a module cannot be pickled
        with pytest.raises(UsageError, match="not run"):
            decode_pickle(content, 10, origin="data_batch_1")
    assert not proof.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n(S'touch IT'\ntR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x08touch IT\x85R.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy\nf2py.os.system\n(S'touch IT'\ntR.",
        b"\x80\x04\x8c\x05numpy\x8c\x12ndarray.__reduce__\x93.",
        b"cbuiltins\ngetattr\n.",
    ],
)
def test_hand_written_pickles_reach_nothing_beyond_arrays(tmp_path, monkeypatch, code):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="asks to call"):
        decode_pickle(code, 10, origin="data_batch_1")
    assert list(tmp_path.iterdir()) == []


def test_damage_anywhere_is_one_sentence():
    whole = official(batch(1))
    random = np.random.default_rng(0)
    for cut in random.integers(0, len(whole), 50):
        with pytest.raises(UsageError, match="data_batch_1"):
            decode_pickle(whole[:cut], 10, origin="data_batch_1")
    for location in range(150):  # the structure; beyond it lie pixels, which have no redundancy
        damaged = bytearray(whole)
        damaged[location] ^= 0xFF
        try:
            decode_pickle(bytes(damaged), 10, origin="data_batch_1")
        except UsageError as error:
            assert "\n" not in str(error)  # noqa: PT017 - some damage does no harm


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {b"data": batch()[b"data"]},
        {**batch(), b"labels": [1]},
        {**batch(), b"labels": [1, 2, 10]},
        {**batch(), b"labels": [1, 2, -1]},
        {**batch(), b"labels": [[1], [2], [3]]},
        {**batch(), b"data": batch()[b"data"].astype(np.float32)},
        {**batch(), b"data": 3},
        {b"data": np.zeros((0, 3072), np.uint8), b"labels": []},
    ],
)
def test_a_pickle_of_something_else_is_refused(wrong):
    with pytest.raises(UsageError, match="data_batch_1"):
        decode_pickle(pickle.dumps(wrong, 4), 10, origin="data_batch_1")
