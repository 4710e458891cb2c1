"""The commands diagnose, explain, compare and treat, as a user runs them."""

import json
import subprocess
import sys

import pytest
import torch

from bathyscope.cli import main
from bathyscope.cli.build import load_weights
from bathyscope.cli.resolve import factory_of
from bathyscope.core.errors import UsageError
from bathyscope.remedies import AddShortcuts, Recipe, ScaleWeights, apply_
from tests.support.command_line import run


def test_a_users_own_model_data_and_report(here):
    result = run(
        "diagnose mine:dead --data mine:batch --lr 0.01 --out a.html --out a.png --json a.json"
    )
    assert result.exit_code == 0, result.output
    assert "dead-units" in result.output
    assert all((here / f"a.{ending}").exists() for ending in ("html", "png", "json"))
    again = run("diagnose mine:model --data mine:loader --lr 0.01 --against a.json")
    assert again.exit_code == 0, again.output
    assert "better" in again.output


def test_json_to_standard_output_and_exit_code_3(here):
    result = run("diagnose mine:dead --data mine:batch --json - --fail-on problem")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["findings"][0]["code"] == "dead-units"
    clean = run("diagnose mine:model --data mine:batch --lr 0.01 --fail-on problem")
    assert clean.exit_code == 0, clean.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("diagnose resnet-57", "resnet-56"),
        ("diagnose mine:nothing --data mine:batch", "named 'nothing'"),
        ("diagnose nowhere:model --data mine:batch", "run it in the folder that holds nowhere"),
        ("diagnose mine", "but a file mine.py; write mine:FACTORY"),
        ("diagnose mine.py", "write for instance mine:factory"),
        ("diagnose mine:model --data mine:fails", "out of luck"),
        ("diagnose mine:fails --data mine:batch", "out of luck"),
        ("diagnose mine:no_parameters --data mine:batch", "no parameters"),
        ("diagnose mine:model --data digits", "cannot take"),
        ("diagnose mine:model", "cannot take .* data set digits; --data package.module:factory"),
        ("diagnose mine:model --data mine:batch --loss crossentropy", "cross-entropy"),
        ("diagnose mine:model --data mine:batch --weights none.pt", "no weights"),
        ("diagnose mine:model --data mine:batch --weights mine.py", "cannot be read"),
        ("diagnose mine:model --data mine:batch --out a.gif", r"\.gif"),
        ("diagnose mine:model --data mine:batch --fail-on bad", "severity"),
        ("diagnose mine:model --data mine:batch --silence dead-unit", "dead-units"),
        ("diagnose mine:model --data mine:batch --silence dead-unit=meant", "dead-units"),
        ("explain dead-unit", "dead-units"),
        ("explain zz", "There are: "),
        ("diagnose mine:model --data mine:batch --json - --against a.json", "give --json a file"),
        # what is wrong with the places of the results is said before the work, which would fail here
        ("diagnose mine:model --data mine:fails --out a.gif", r"\.gif"),
        ("diagnose mine:model --data mine:fails --out mine.py/a.html", "cannot be written"),
        ("diagnose mine:model --data mine:fails --json mine.py/a.json", "cannot be written"),
        ("diagnose mine:model --data mine:fails --against none.json", "none.json cannot be read"),
        ("treat mine:model --data mine:fails --out a.gif", r"\.gif"),
        ("treat mine:model --data mine:fails --save w.txt", r"\.safetensors"),
        ("treat mine:model --data mine:fails --save mine.py/w.safetensors", "cannot be written"),
        ("compare mine:model --data mine:fails --out mine.py/out", "cannot be written"),
        ("hessian mine:model --data mine:fails --json mine.py/a.json", "cannot be written"),
        ("certify mine:model --data mine:fails --json mine.py/a.json", "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_with_exit_code_2(here, text, message):
    result = run(text)
    assert isinstance(result.exception, UsageError), (result.output, result.exception)
    assert result.exception.exit_code == 2
    with pytest.raises(UsageError, match=message):
        raise result.exception
    assert "\n" not in str(result.exception)


def test_weights_that_do_not_fit_and_a_pickle_are_refused(here):
    import pickle

    import torch

    (here / "junk.pt").write_bytes(b"hello")
    result = run("diagnose mine:model --data mine:batch --weights junk.pt")
    assert "junk.pt cannot be read" in str(result.exception)
    torch.save({"weight": torch.zeros(2)}, "other.pt")
    result = run("diagnose mine:model --data mine:batch --weights other.pt")
    assert "do not fit" in str(result.exception)

    class Trap:
        def __reduce__(self):
            return open, ("trapped", "w")

    with open("trap.pt", "wb") as file:  # noqa: PTH123
        pickle.dump(Trap(), file)
    result = run("diagnose mine:model --data mine:batch --weights trap.pt")
    assert "cannot be read" in str(result.exception)
    assert not (here / "trapped").exists()


def test_compare_writes_the_page_the_picture_and_the_reports(here):
    result = run("compare plain-8 resnet-8 --steps 2 --batch-size 16 --lr 0.02 --out out")
    assert result.exit_code == 0, result.output
    assert {p.name for p in (here / "out").iterdir()} == {
        "comparison.html",
        "comparison.png",
        "plain-8.json",
        "resnet-8.json",
    }
    assert "verdict   " in result.output
    assert "outcome   After 2 steps: loss" in result.output
    as_json = run("compare resnet-8 --steps 2 --batch-size 16 --json --out out")
    (reported,) = json.loads(as_json.stdout)
    assert reported["model"] == "resnet-8"
    assert reported["treatment"] is None
    assert reported["severity"] in (None, "note", "warning", "problem")


def test_compare_treats_what_fails(here):
    result = run("compare mine:dead --data mine:batch --lr 0.05 --steps 4 --treat --out out")
    assert result.exit_code == 0, result.output
    assert (here / "out" / "mine-dead-treated.html").exists()
    assert "mine:dead, treated" in result.output
    assert "with the code to take away: " in result.output


def test_treat_says_what_was_tried_and_saves_the_weights(here):
    text = "treat mine:dead --data mine:batch --lr 0.05 --spend 300 --json --save w.safetensors"
    result = run(text)
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.stdout)
    assert outcome["before"][0] == "dead-units"
    assert outcome["attempts"][0]["recipe"] == "untreated"
    assert (here / "w.safetensors").exists()
    loaded = run("diagnose mine:model --data mine:batch --weights w.safetensors")
    assert loaded.exit_code == 0, loaded.output


def test_a_recipe_is_applied_and_its_weights_load_with_it(here, capsys):
    around = Recipe(steps=(AddShortcuts(spans=(("2", "3"),)), ScaleWeights(factors={"0": 0.5})))
    around.save(here / "recipe.json")
    result = run(
        "treat mine:deep --data mine:batch --recipe recipe.json --code --json "
        "--save-recipe again.json --save w.safetensors"
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["applied"] == around.description
    assert "add_shortcut_" in result.stderr
    assert Recipe.load(here / "again.json") == around
    diagnosed = run("diagnose mine:deep --data mine:batch --recipe recipe.json")
    assert diagnosed.exit_code == 0, diagnosed.output

    expected, loaded = factory_of("mine:deep")(), factory_of("mine:deep")()
    load_weights(loaded, here / "w.safetensors")
    assert "applied what these weights need: shortcuts around 1 blocks" in capsys.readouterr().err
    expected.load_state_dict(loaded.state_dict())
    x = factory_of("mine:batch")()[0]
    assert not torch.allclose(expected(x), loaded(x))
    apply_(expected, around.beside_the_weights)
    torch.testing.assert_close(expected(x), loaded(x))

    result = run("treat mine:model --data mine:batch --recipe none.json")
    assert "no recipe at none.json" in str(result.exception)


def test_explain_lists_and_explains():
    assert "exploding-gradient" in run("explain").output
    assert "What helps" in run("explain exploding-gradient").output
    assert json.loads(run("explain dead-units --json").stdout)["dead-units"]["source"]


def test_the_real_command_prints_one_sentence_and_no_traceback(here, monkeypatch):
    command = [sys.executable, "-m", "bathyscope", "data", "path", "minst"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=here)
    assert result.returncode == 2
    assert result.stderr.startswith("bathyscope: ")
    assert result.stderr.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["bathyscope", *command[3:], "--debug"])
    with pytest.raises(
        UsageError, match="There is no data set named 'minst'"
    ):  # as it was raised, for Python to print with its traceback
        main()
