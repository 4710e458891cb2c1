"""`bathyscope data` as a user meets it: exit codes, sentences, and what is left behind.

Where processes are killed, wait for each other or meet limits, they are real ones.
"""

import gzip
import hashlib
import io
import json
import multiprocessing
import os
import resource
import signal
import sys
import tarfile
from typing import NamedTuple

import numpy as np
import pytest

from bathyscope.cli import main
from bathyscope.data import sources
from bathyscope.data.catalog import CATALOG, Entry
from bathyscope.data.checksums import File

TIMEOUT = 120


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def run(cache, monkeypatch, capsys):
    """Run `bathyscope` in this process, with its cache in a temporary folder."""
    monkeypatch.setenv("BATHYSCOPE_DATA", str(cache))

    def run(*text):
        monkeypatch.setattr(sys, "argv", ["bathyscope", *map(str, text)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(ended.value.code or 0, *capsys.readouterr())

    return run


class Result(NamedTuple):
    code: int
    out: str
    said: str

    @property
    def is_one_sentence(self):
        *reports, last = self.said.strip().splitlines()
        is_report = [line.startswith("Fetching ") for line in reports]
        return all(is_report) and last.startswith("bathyscope: ")


def test_list_shows_every_set_to_people_and_machines(run, cache):
    table = run("data", "list")
    assert table.code == 0
    for word in ("digits", "cifar-100", "3×64×64", "60k+10k", "CC BY-SA 3.0", "folder:PATH"):
        assert word in table.out
    rows = {row["name"]: row for row in json.loads(run("data", "list", "--json").out)}
    assert rows["digits"]["present"] is True
    assert rows["mnist"]["present"] is False
    assert rows["cifar-10"]["shape"] == [3, 32, 32]
    assert (rows["text"]["present"], rows["text"]["shape"]) == (True, [64])
    assert "64 tokens" in table.out
    assert not cache.exists()


@pytest.mark.parametrize("command", ["list", "fetch", "path"])
def test_every_verb_has_help_with_an_example(run, command):
    shown = run("data", command, "--help")
    assert shown.code == 0
    assert "Example" in shown.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (("fetch", "mnst"), "The nearest: mnist"),
        (("fetch", "digits"), "needs no download"),
        (("path", "mnist"), "data fetch mnist"),
        (("path", "imagenet"), "ILSVRC2012_img_train.tar"),
        (("fetch", "imagenet"), "cannot be fetched for you; ask for ILSVRC2012_img_train.tar"),
        (("path", "nothing-like-it"), "no data set"),
        (("fetch", "mnist", "--from", "/nonexistent"), "no file or folder"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_exit_code_2(run, cache, text, said):
    result = run("data", *text)
    assert result.code == 2
    assert said in result.said
    assert result.is_one_sentence
    assert not cache.exists() or list(cache.iterdir()) == []


def _damaged(kind, folder):
    """A copy for `fetch --from`, its set, and what the sentence must say."""
    folder.mkdir()
    names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]
    names += ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
    if kind == "wrong checksum":
        sizes = [47_040_016, 60_008, 7_840_016, 10_008]
        for name, size in zip(names, sizes, strict=True):
            (folder / name).write_bytes(bytes(size))
        return "mnist", folder, "md5"
    if kind == "truncated idx.gz":
        for name in names:
            (folder / f"{name}.gz").write_bytes(gzip.compress(bytes(1000))[:-9])
        return "fashion-mnist", folder, "truncated or damaged"
    if kind == "truncated tar":
        path = folder / "cifar-10-binary.tar.gz"
        path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(10_000))[:5000])
        return "cifar-10", path, "truncated, damaged or no archive"
    path = folder / "cifar-100-binary.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        (folder / "x").write_bytes(b"evil")
        tar.add(folder / "x", "train.bin")
        tar.add(folder / "x", "../../../evil")
    return "cifar-100", path, "md5"


@pytest.mark.parametrize(
    "kind", ["wrong checksum", "truncated idx.gz", "truncated tar", "climbing tar"]
)
def test_a_bad_copy_is_one_sentence_and_nothing_is_left(run, cache, tmp_path, kind):
    name, source, said = _damaged(kind, tmp_path / "copy")
    before = sorted(tmp_path.rglob("*"))
    result = run("data", "fetch", name, "--from", source)
    assert said in result.said
    assert result.is_one_sentence
    assert result.code == 2
    assert sorted(path for path in tmp_path.rglob("*") if path != cache) == before


@pytest.mark.parametrize("name", ["mnist", "cifar-10", "npz"])
def test_training_on_a_truncated_file_is_one_sentence_and_nothing_is_left(
    run, cache, tmp_path, name
):
    if name == "mnist":
        (cache / name).mkdir(parents=True)
        (cache / name / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0]))
    elif name == "cifar-10":
        (cache / name).mkdir(parents=True)
        for part in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            (cache / name / f"{part}.bin").write_bytes(bytes(3073 * 2 - 1))
    else:
        name = f"npz:{tmp_path / 'cut.npz'}"
        whole = io.BytesIO()
        np.savez(whole, x_train=np.zeros((10, 8, 8)))
        (tmp_path / "cut.npz").write_bytes(whole.getvalue()[:-50])
    before = sorted(tmp_path.rglob("*"))
    result = run("train", "plain-8", "--data", name, "--out", tmp_path / "runs")
    assert result.code == 2
    assert result.is_one_sentence
    assert sorted(tmp_path.rglob("*")) == before


class Fetch:
    """`bathyscope data fetch toy` in a process of its own, forked so that torch need not be loaded again."""

    def __init__(self, prepare):
        read, write = os.pipe()
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=self._run, args=(write, prepare))
        self.process.start()
        os.close(write)
        self.said = os.fdopen(read)

    def _run(self, write, prepare):
        os.dup2(write, 2)
        os.close(write)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        # a shell's background job ignores SIGINT, and so would everything it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["bathyscope", "data", "fetch", "toy"]
        prepare()
        main()

    def finish(self):
        self.process.join(TIMEOUT)
        return self.process.exitcode, self.said.read()


@pytest.fixture
def toy(server, cache, monkeypatch):
    """Start to fetch the set `toy`: two files from a local server."""
    contents = {"one": b"first file " * 5000, "two": bytes(range(256)) * 300}
    server.pages = {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}
    files = tuple(
        File(name, len(content), md5=hashlib.md5(content).hexdigest())
        for name, content in contents.items()
    )
    source = sources.gzipped_files(server.address, tuple(contents))
    entry = Entry("toy", (1, 1, 1), 2, 1, 1, "tests", "none", files=files, sources=(source,))
    monkeypatch.setitem(CATALOG, "toy", entry)
    monkeypatch.setattr(sources, "_TIMEOUT", TIMEOUT)  # a busy machine is not a lost connection
    monkeypatch.setenv("BATHYSCOPE_DATA", str(cache))
    started = []

    def start(prepare=lambda: None):
        started.append(Fetch(prepare))
        return started[-1]

    yield start
    for fetch in started:
        fetch.process.kill()
        fetch.process.join()
        fetch.said.close()


def test_a_fetch_killed_half_way_is_no_hindrance_to_the_next(toy, server, cache):
    server.hang.add("two.gz")
    fetch = toy()
    assert server.hung.wait(TIMEOUT)
    assert len(list(cache.iterdir())) == 2  # the lock and the part folder
    fetch.process.kill()
    assert fetch.finish()[0] == -signal.SIGKILL
    assert not (cache / "toy").exists()
    server.hang.clear()
    code, said = toy().finish()
    assert code == 0, said
    assert [path.name for path in cache.iterdir()] == ["toy"]


def test_an_interrupted_fetch_clears_up_after_itself(toy, server, cache):
    server.hang.add("two.gz")
    fetch = toy()
    assert server.hung.wait(TIMEOUT)
    os.kill(fetch.process.pid, signal.SIGINT)
    code, said = fetch.finish()
    assert code == 130
    assert "Traceback" not in said
    assert list(cache.iterdir()) == []


def test_two_fetches_at_once_download_once(toy, server, cache):
    server.hang.add("two.gz")
    first = toy()
    assert server.hung.wait(TIMEOUT)
    second = toy()
    lines = [second.said.readline(), second.said.readline()]
    assert any("Waiting" in line for line in lines)
    server.released.set()
    assert first.finish()[0] == second.finish()[0] == 0
    assert server.num_requests == 2
    assert [path.name for path in cache.iterdir()] == ["toy"]


def test_a_disk_that_is_full_is_one_sentence_and_nothing_is_left(toy, cache):
    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    code, said = toy(small_disk).finish()
    assert code == 1
    assert "has no room" in said
    assert "Traceback" not in said
    assert list(cache.iterdir()) == []
