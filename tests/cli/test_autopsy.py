"""`bathyscope autopsy` and `show --events`: from a log, two files of weights, a run; bad input."""

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

from bathyscope import cli
from tests.recorder import trainings as t


@pytest.fixture
def bathyscope(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*text):
        monkeypatch.setattr(sys, "argv", ["bathyscope", *map(str, text)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        result = capsys.readouterr()
        return ended.value.code or 0, result.out, result.err

    return call


def test_a_log_tells_the_order_of_events(bathyscope, tmp_path):
    t.train("residual", seed=0, steps=12, at=5, plant=t.nan_in_block(2), log=tmp_path / "log")
    code, out, _ = bathyscope("autopsy", "log")
    assert code == 0
    assert "Step 5: a value became NaN or Inf; it began at block blocks.2." in out
    code, out, _ = bathyscope("show", "log", "--events", "--json")
    assert json.loads(out)[0]["began"] == "blocks.2"
    code, out, _ = bathyscope("autopsy", "log", "--json")
    assert json.loads(out)["began"] == "blocks.2"


def test_two_files_of_weights_name_the_layer(bathyscope, tmp_path):
    before = {k: v.clone() for k, v in t.ResidualNet().state_dict().items()}
    after = {k: v + 1e-3 for k, v in before.items()} | {
        "blocks.1.one.weight": torch.full((24, 24), 9.0)
    }
    save_file(before, tmp_path / "before.safetensors")
    torch.save(after, tmp_path / "after.pt")
    code, out, _ = bathyscope("autopsy", "before.safetensors", "after.pt")
    assert code == 0
    assert "blocks.1.one moved by" in out


def test_a_run_tells_from_its_metrics_and_checkpoints(bathyscope):
    text = ["--set", "num_train=64", "--set", "num_test=32", "--set", "max_steps=4"]
    assert bathyscope("train", "resnet-8", "--data", "digits", "--out", "runs", *text)[0] == 0
    folder = json.loads(bathyscope("show", "runs", "--json")[1])[0]["run"]
    code, out, _ = bathyscope("autopsy", f"runs/{folder}")
    assert code == 0
    assert "The metrics show nothing out of the ordinary." in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (["autopsy", "nowhere"], "neither a log"),
        (["autopsy", "a.pt", "b.pt"], "There are no weights at a.pt"),
        (["show", ".", "--events"], "holds no log"),
    ],
)
def test_what_is_no_record_is_one_sentence(bathyscope, text, said):
    code, _, err = bathyscope(*text)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
