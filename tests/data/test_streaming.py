"""Sets on the disk against the same sets in memory: images, arrays, tokens; damage; training."""

import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from bathyscope import data
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.data import need
from bathyscope.runs import load_checkpoint
from bathyscope.training import Callback, Saving, TrainingConfig, fit, train

CONFIG = TrainingConfig(batch_size=7, epochs=3, lr=0.05, flip=True, shift=1)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for part, count in (("train", 8), ("val", 3)):
        for label in ("ape", "bee", "cat"):
            location = root / part / label
            location.mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 256, (14, 11, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(location / f"{number}.png")
    return root


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (20, 6, 5), dtype=np.uint8), rng.integers(0, 4, 20)
    path = tmp_path_factory.mktemp("arrays") / "mine.npz"
    np.savez(path, x_train=x[:14], y_train=y[:14], x_test=x[14:], y_test=y[14:])
    return path


@pytest.fixture(scope="module")
def idx_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("idx")
    rng = np.random.default_rng(2)
    for part, count in (("train", 12), ("t10k", 5)):
        images = rng.integers(0, 256, (count, 4, 3), dtype=np.uint8)
        head = bytes([0, 0, 8, 3]) + np.array(images.shape, ">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        labels = rng.integers(0, 3, count).astype(np.uint8)
        head = bytes([0, 0, 8, 1]) + np.array([count], ">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    return folder


def network(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 8), nn.Dropout(0.2),
                         nn.Linear(8, classes))  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "npz", "idx"])
def test_a_stream_is_the_set_in_memory(kind, request):
    location = request.getfixturevalue(
        {"folder": "pictures", "npz": "arrays", "idx": "idx_folder"}[kind]
    )
    options = {"size": 9} if kind == "folder" else {}
    both = [
        data.load(f"{kind}:{location}", stream=s, normalize=True, num_train=10, seed=3, **options)
        for s in (False, True)
    ]
    memory, stream = both
    assert stream.is_streamed
    assert not memory.is_streamed
    assert stream.shape == memory.shape
    assert torch.equal(stream.train_inputs[:], memory.train_inputs)
    assert torch.equal(stream.test_inputs[:], memory.test_inputs)
    assert torch.equal(stream.train_inputs[3], memory.train_inputs[3])
    assert torch.equal(stream.train_labels, memory.train_labels)
    assert stream.num_classes == memory.num_classes


def test_training_on_a_stream_is_training_in_memory(pictures):
    losses = []
    for stream, workers in ((False, None), (True, 0), (True, 2)):
        result = data.load(
            f"folder:{pictures}", size=8, normalize=True, stream=stream, workers=workers
        )
        torch.manual_seed(0)
        model = network(result.shape, result.num_classes)
        done = fit(
            model,
            (result.train_inputs, result.train_labels),
            test=(result.test_inputs, result.test_labels),
            config=CONFIG,
        )
        losses.append((done.curve("loss"), done.result))
    assert losses[1] == losses[0]
    assert losses[2] == losses[0]


class StopAt(Callback):
    def on_step(self, loop, record):
        if loop.step == 5:
            os.kill(os.getpid(), 15)


def test_stopped_in_the_middle_of_an_epoch_and_resumed(pictures, tmp_path):
    result = data.load(f"folder:{pictures}", size=8, normalize=True, stream=True, workers=1)
    examples = (result.train_inputs, result.train_labels)

    def run(folder, *callbacks):
        return train(
            lambda: network(result.shape, 3),
            examples,
            config=CONFIG,
            folder=tmp_path / folder,
            callbacks=callbacks,
            saving=Saving(every_steps=100),
        )

    whole = run("whole")
    assert run("parts", StopAt()).status == "stopped"
    assert run("parts").history == whole.history
    a, b = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "parts")
    assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


class EndReader(Callback):
    def on_step(self, loop, record):
        """Kill the process that reads ahead, and be in the middle of something when torch says so."""
        if loop.step == 5:
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(60)  # torch's handler raises in here, long before


def test_a_reader_that_is_killed_is_one_sentence_and_the_run_goes_on(pictures, tmp_path):
    result = data.load(f"folder:{pictures}", size=8, normalize=True, stream=True, workers=1)

    def run(folder, *callbacks):
        return train(
            lambda: network(result.shape, 3),
            (result.train_inputs, result.train_labels),
            config=CONFIG,
            folder=tmp_path / folder,
            callbacks=callbacks,
            saving=Saving(every_steps=1),
        )

    with pytest.raises(BathyscopeError, match="reads the data ahead was ended") as reported:
        run("killed", EndReader())
    assert "\n" not in str(reported.value)
    assert run("killed").history == run("whole").history


@pytest.mark.parametrize("workers", [0, 1])
def test_damaged_and_missing_files_are_named_and_skipped_only_if_asked(pictures, tmp_path, workers):
    root = tmp_path / "copy"
    shutil.copytree(pictures, root)
    options = {"size": 8, "stream": True, "workers": workers}
    strict = data.load(f"folder:{root}", **options)
    lenient = data.load(f"folder:{root}", skip_damaged=True, **options)
    [(whole, _)] = strict.train_inputs.batches([torch.arange(4)])
    broken = root / "train" / "ape" / "1.png"
    broken.write_bytes(broken.read_bytes()[:60])
    (root / "train" / "ape" / "2.png").unlink()
    with pytest.raises(UsageError, match=r"ape/1\.png is not a readable image") as caught:
        list(strict.train_inputs.batches([torch.arange(4)]))
    assert "Traceback" not in str(caught.value)
    with pytest.warns(UserWarning, match=r"2 of 4 samples were left out: .*1\.png"):
        [(batch, kept)] = lenient.train_inputs.batches([torch.arange(4)])
    assert kept.tolist() == [0, 3]
    assert torch.equal(batch, whole[kept])
    with pytest.raises(UsageError, match=r"1\.png"):
        list(lenient.train_inputs.batches([torch.tensor([1, 2])]))


def test_truncated_arrays_are_named(arrays, idx_folder, tmp_path):
    short = tmp_path / "short.npz"
    short.write_bytes(arrays.read_bytes()[:-40])
    with pytest.raises(UsageError, match=r"short\.npz is truncated, damaged"):
        data.load(f"npz:{short}", stream=True)
    packed = tmp_path / "packed.npz"
    with np.load(arrays) as result:
        np.savez_compressed(packed, **result)
    with pytest.raises(UsageError, match="is compressed, which cannot be read in parts"):
        data.load(f"npz:{packed}", stream=True)
    shutil.copytree(idx_folder, tmp_path / "idx")
    images = tmp_path / "idx" / "train-images-idx3-ubyte"
    stream = data.load(f"idx:{tmp_path / 'idx'}", stream=True)
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(UsageError, match="promises 160 bytes, there are 159"):
        data.load(f"idx:{tmp_path / 'idx'}", stream=True)
    with pytest.raises(UsageError, match=r"is truncated: it ends before sample 11"):
        stream.train_inputs[11]
    images.unlink()
    with pytest.raises(UsageError, match="No such file"):
        data.load(f"idx:{tmp_path / 'idx'}")
    with pytest.raises(UsageError, match="digits is small"):
        data.load("digits", stream=True)


def test_tokens(tmp_path):
    path = tmp_path / "tokens.bin"
    tokens = np.random.default_rng(0).integers(0, 50, 203, dtype=np.uint16)
    tokens.tofile(path)
    result = data.token_file(path, context=10, vocabulary=50, test_fraction=0.25)
    assert (len(result.train_inputs), len(result.test_inputs)) == (15, 5)
    for part, start in ((result.test_inputs, 150), (result.test_targets, 151)):
        assert part[0].tolist() == tokens[start : start + 10].tolist()
    x, y = result.batch(4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(x[:, 1:], y[:, :-1])
    model = nn.Sequential(
        nn.Embedding(50, 8), nn.Flatten(), nn.Linear(80, 500), nn.Unflatten(1, (50, 10))
    )
    done = fit(model, (result.train_inputs, result.train_targets), config=CONFIG.model_copy(
        update={"flip": False, "shift": 0}))  # fmt: skip
    assert done.status == "finished"
    with pytest.raises(UsageError, match="too few for sequences of 150"):
        data.token_file(path, context=150, vocabulary=50)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="405 bytes, which is not a number of uint16"):
        data.token_file(path, context=10, vocabulary=50)
    with pytest.raises(UsageError, match="No such file"):
        data.token_file(tmp_path / "absent", vocabulary=50)


def test_what_does_not_fit_is_streamed_and_said(pictures, monkeypatch):
    result = data.memory_need(f"folder:{pictures}", size=10)
    assert result.whole == 33 * (3 * 100 * 4 + 8)
    assert result.fits
    assert "it fits in memory" in str(result)
    monkeypatch.setattr(need, "available_bytes", lambda device: result.whole)
    tight = data.memory_need(f"folder:{pictures}", size=10)
    assert not tight.fits
    assert "read from the disk" in str(tight)
    assert data.load(f"folder:{pictures}", size=10).is_streamed
    assert not data.load(f"folder:{pictures}", size=10, stream=False).is_streamed
    assert (
        data.memory_need(f"folder:{pictures}", size=10, num_train=2, num_test=1).whole == 3 * 1208
    )


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="resident size is read from /proc"
)
def test_memory_stays_flat_over_two_hundred_batches(pictures):
    result = data.load(f"folder:{pictures}", size=64, stream=True, workers=0)

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    order = [torch.arange(24) for _ in range(220)]
    sizes = []
    for number, _ in enumerate(result.train_inputs.batches(order)):
        if number >= 20:
            sizes.append(resident())
    # a batch takes 1.2 MB: were they kept, 200 would take 236 MB
    assert max(sizes) - sizes[0] < 12e6
