"""`bathyscope train`: outcome, resume, and every bad input with one sentence and exit code 2."""

import json
import math
import signal
import sys

import pytest

from bathyscope import cli

QUICK = ["--set", "num_train=64", "--set", "num_test=32", "--set", "max_steps=2"]


@pytest.fixture
def bathyscope(monkeypatch, capsys, tmp_path):
    """Run the command line in this process: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*text):
        monkeypatch.setattr(sys, "argv", ["bathyscope", *map(str, text)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        result = capsys.readouterr()
        return ended.value.code or 0, result.out, result.err

    return call


def test_a_run_is_trained_once(bathyscope, tmp_path):
    text = ("train", "resnet-8", "--out", tmp_path / "runs", *QUICK, "--json")
    code, out, _ = bathyscope(*text, "--tensorboard")
    summary = json.loads(out)
    assert (code, summary["status"], summary["result"]["step"]) == (0, "finished", 2)
    folder = next((tmp_path / "runs").iterdir())
    assert str(folder) == summary["folder"]
    assert folder.name.startswith("resnet-8-digits-lr0.1-seed0-")
    assert list((folder / "tensorboard").glob("events*"))
    before = (folder / "manifest.json").read_bytes()
    code, again, err = bathyscope(*text)
    assert (code, json.loads(again)) == (0, summary)
    assert "had a result already; --restart runs it again" in err
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("data", ["sorting", "addition"])
def test_sequences_are_trained_on_and_their_run_can_be_diagnosed(bathyscope, tmp_path, data):
    small = ["--set", "model_options={width = 8}", "--set", "batch_size=16"]
    text = ("train", "gpt-2", "--data", data, "--out", tmp_path / "runs", *QUICK, *small, "--json")
    code, out, _ = bathyscope(*text)
    summary = json.loads(out)
    assert (code, summary["status"]) == (0, "finished")
    assert 0 <= summary["result"]["test_accuracy"] <= 1
    classes = 11 if data == "sorting" else 98
    assert abs(summary["result"]["test_loss"] - math.log(classes)) < 0.5  # hardly more than a guess
    code, out, _ = bathyscope("diagnose", summary["folder"], "--batch-size", 4, "--json")
    assert code == 0
    assert json.loads(out)["title"]


def test_a_divergence_is_a_result(bathyscope, tmp_path):
    code, out, _ = bathyscope(
        "train",
        "plain-8",
        "--lr",
        "1e30",
        "--out",
        tmp_path / "runs",
        *QUICK,
        "--set",
        "max_steps=9",
    )
    assert code == 0
    assert "plain-8: diverged at step 2 in block blocks." in out


def test_a_begun_run_wants_resume(bathyscope, tmp_path):
    text = ("train", "resnet-8", "--out", tmp_path / "runs", *QUICK)
    bathyscope(*text)
    folder = next((tmp_path / "runs").iterdir())
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"status": "stopped"}))
    code, _, err = bathyscope(*text)
    assert code == 2
    assert "--resume" in err
    assert bathyscope(*text, "--resume")[0] == 0
    assert json.loads((folder / "manifest.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_ctrl_c_is_exit_code_130_and_the_run_goes_on(bathyscope, tmp_path, number, code):
    name = f"stopped_by_{number.name.lower()}"  # a module is imported once in a process
    (tmp_path / f"{name}.py").write_text(
        "import signal\nfrom torch import nn\nasked = []\n"
        "class Net(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        if not asked:\n"
        f"            asked.append(signal.raise_signal({int(number)}))\n"
        "        return super().forward(x.flatten(1))\n"
        "def make():\n"
        "    return Net(64, 10)\n"
    )
    text = ("train", f"{name}:make", "--out", tmp_path / "runs", *QUICK)
    result, out, _ = bathyscope(*text)
    assert (result, f"stopped at step 1 by {number.name}" in out) == (code, True)
    assert bathyscope(*text, "--resume")[0] == 0


def test_settings_from_a_file(bathyscope, tmp_path):
    (tmp_path / "run.toml").write_text('model = "resnet-8"\nlr = 0.5\nmax_steps = 1\nseed = 3\n')
    code, out, _ = bathyscope(
        "train", "--config", "run.toml", "--seed", 4, "--set", "num_train=64", "--json"
    )
    assert code == 0
    assert "resnet-8-digits-lr0.5-seed4-" in json.loads(out)["folder"]


def test_a_place_that_cannot_be_written_is_one_sentence(bathyscope, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = bathyscope("train", "resnet-8", "--out", tmp_path / "file" / "runs", *QUICK)
    assert (code, "cannot be written: Not a directory" in err) == (2, True)


def test_a_factory_of_ones_own(bathyscope, tmp_path):
    (tmp_path / "mynet.py").write_text(
        "from torch import nn\n"
        "def make(width=4):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))\n"
    )
    options = ["--set", "model_options={width = 6}"]
    assert bathyscope("train", "mynet:make", *QUICK, *options)[0] == 0
    code, _, err = bathyscope("train", "mynet:absent", *QUICK)
    assert (code, "no factory in mynet named 'absent'. There are: make." in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (["resnet-8", "--set", "learning_rte=1"], "has no key 'learning_rte'"),
        (["resnet-8", "--set", "momntum=0.5"], "has no key 'momntum'; the nearest: momentum"),
        (["resnet-8", "--set", "epochs=many"], "key 'epochs' is 'many'"),
        (["resnet-8", "--set", "epochs=0"], "greater than or equal to 1"),
        (["resnet-8", "--set", "epochs"], "is not KEY=VALUE"),
        (["resnet-8", "--optimizer", "sdg"], "'sgd', 'adam' or 'adamw'"),
        (["resnet-8", "--set", "nesterov=true", "--set", "momentum=0"], "nesterov needs"),
        (["resnt-8"], "resnet"),
        (["resnet-8", "--data", "digit"], "digits"),
        (["absent.module:net"], "there is no module absent.module"),
        (["resnet-8", "--config", "absent.toml"], "cannot be read"),
        (["resnet-8", "--resume", "--restart"], "give one of them"),
        ([], "lacks the key 'model'"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(bathyscope, tmp_path, text, sentence):
    code, out, err = bathyscope("train", *text, "--out", tmp_path / "runs")
    assert code == 2
    assert sentence in err
    assert "Traceback" not in err + out
    assert not (tmp_path / "runs").exists()
