"""`bathyscope sweep` and `bathyscope show`."""

import json
import sys

import pandas as pd
import pytest

from bathyscope import cli

GRID = """
[fixed]
num_train = 64
num_test = 32
max_steps = 3
[product]
model = ["plain-8", "resnet-8"]
[zip]
lr = [0.1, 1e30]
seed = [0, 1]
"""


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


def test_a_sweep_with_divergences_ends_well_and_is_shown(bathyscope, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    code, out, _ = bathyscope("sweep", "grid.toml", "--out", "runs", "--workers", 1, "--json")
    assert code == 0
    assert {k: json.loads(out)[k] for k in ("total", "finished", "diverged")} == {
        "total": 4,
        "finished": 2,
        "diverged": 2,
    }
    code, out, _ = bathyscope("sweep", "grid.toml", "--out", "runs", "--json")
    assert (code, json.loads(out)["before"]) == (0, 4)

    (tmp_path / "runs" / "sweep.json").write_text(
        json.dumps({"runs": [*(p.name for p in (tmp_path / "runs").glob("*-*")), "never-begun"]})
    )
    code, out, _ = bathyscope("show", "runs", "--plot", "c.png", "--table", "all.csv")
    assert code == 0
    assert "4 runs: " in out
    assert "1 not begun" in out
    assert "diverged at step 2 in block blocks." in out
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv(tmp_path / "all.csv")
    assert set(table["model"]) == {"plain-8", "resnet-8"}
    assert table["diverged_block"].notna().sum() == 2

    bathyscope("show", "runs", "--table", "all.parquet")
    assert len(pd.read_parquet(tmp_path / "all.parquet")) == 4
    rows = json.loads(bathyscope("show", "runs", "--json")[1])
    assert len(rows) == 4
    code, _, err = bathyscope("show", "runs", "--plot", "c.png", "--metric", "test_los")
    assert (code, "test_loss" in err) == (2, True)
    code, _, err = bathyscope("show", "runs", "--table", "all.xls")
    assert (code, ".csv or .parquet" in err) == (2, True)
    code, _, err = bathyscope("show", "runs", "--plot", "c.pdf2")
    assert (code, "end it in .png" in err) == (2, True)
    for option, name in (("--plot", "c.png"), ("--table", "all.csv")):
        code, _, err = bathyscope("show", "runs", option, f"all.csv/{name}")
        assert (code, "cannot be written: Not a directory" in err) == (2, True)
    single = next(p for p in (tmp_path / "runs").iterdir() if p.is_dir())
    assert bathyscope("show", single)[0] == 0


def test_a_failed_run_is_exit_code_1_and_retried_on_demand(bathyscope, tmp_path):
    (tmp_path / "grid.toml").write_text('[fixed]\nmodel = "resnet-9"\nmax_steps = 1\n')
    code, _, err = bathyscope("sweep", "grid.toml", "--out", "runs", "--workers", 1)
    assert code == 1
    assert "1 of 1 runs failed" in err
    assert "resnet-9" in next((tmp_path / "runs").glob("*/failure.txt")).read_text()
    code, out, err = bathyscope("sweep", "grid.toml", "--out", "runs")
    assert (code, "1 of 1 runs failed" in err) == (1, True), "point 5: so it is the second time"
    assert "0 had a result; now 1 failed" in out


@pytest.mark.parametrize(
    ("grid", "text", "sentence"),
    [
        ("", [], "The grid is empty"),
        ("[product]\nlr = []\n", [], "The grid is empty"),
        ("[prodcut]\nlr = [1]\n", [], "has no key 'prodcut'; the nearest: product"),
        ("[product]\nmodel = ['resnet-8']\nlrr = [1]\n", [], "has no key 'lrr'; the nearest: lr"),
        ("[product]\nmodel = ['resnet-8']\nlr = ['a']\n", [], "key 'lr' is 'a'"),
        ("[fixed]\nmodel = 'resnet-8'\n", ["--on", "moon"], "cannot run on 'moon'"),
        ("[fixed]\nmodel = 'resnet-8'\n", ["--retry", "all"], "--retry failed"),
        ("[fixed\n", [], "is not valid TOML"),
    ],
)
def test_bad_grids_are_one_sentence_and_leave_nothing(bathyscope, tmp_path, grid, text, sentence):
    (tmp_path / "grid.toml").write_text(grid)
    code, out, err = bathyscope("sweep", "grid.toml", "--out", "runs", *text)
    assert code == 2
    assert sentence in err
    assert "Traceback" not in out + err
    assert not (tmp_path / "runs").exists()


def test_what_is_no_run_is_not_shown(bathyscope, tmp_path):
    code, _, err = bathyscope("show", tmp_path)
    assert (code, "holds no run" in err) == (2, True)
    code, _, err = bathyscope("show", tmp_path / "absent")
    assert (code, "is not a folder" in err) == (2, True)
