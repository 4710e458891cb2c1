"""Arguments of the wrong kind are one sentence for every command of the diagnosis.

They run without the checks of signatures, which under test come before our own.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.diagnosis import Contender, Treatment, compare, diagnose, treat
from bathyscope.diagnosis.verification import Verification
from bathyscope.recorder import watch
from tests.unchecked import unchecked


def cases(folder):
    """Every wrong call by a name."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    pair = torch.randn(8, 8), torch.randint(4, (8,))
    result = diagnose(model, pair)
    file = folder / "file"
    file.touch()

    class Fails(nn.Linear):
        def forward(self, x):
            raise KeyError("mask")

    def raising(error):
        def loss(output, targets):
            raise error

        return loss

    def of(**options):
        return lambda: diagnose(model, pair, **options)

    return {
        "no model": lambda: diagnose(None, pair),
        "a name": lambda: diagnose("plain-20", pair),
        "a function": lambda: diagnose(torch.relu, pair),
        "no parameters": lambda: diagnose(nn.ReLU(), pair),
        "a failing model": lambda: diagnose(Fails(8, 4), pair),
        "inputs alone": lambda: diagnose(model, pair[0]),
        "a triple": lambda: diagnose(model, (*pair, 1)),
        "KeyError": of(loss=raising(KeyError("a"))),
        "ZeroDivisionError": of(loss=raising(ZeroDivisionError("division by zero"))),
        "AssertionError": of(loss=raising(AssertionError())),
        "optimizer's class": of(optimizer=torch.optim.SGD),
        "optimizer's name": of(optimizer="sgd"),
        "no blocks": of(blocks=[]),
        "numbers of blocks": of(blocks=[0]),
        "a number of a block": of(blocks=0),
        "a module": of(blocks=[model[0]]),
        "half a block": of(most_blocks=2.5),
        "half a step": of(steps=1.5),
        "no step": of(steps=0),
        "memory in words": of(memory="4"),
        "memory not a number": of(memory=float("nan")),
        "list of thresholds": of(thresholds=[1]),
        "threshold nan": of(thresholds={"dead_fraction": float("nan")}),
        "threshold below zero": of(thresholds={"dead_fraction": -5}),
        "unknown finding": of(silence="zz"),
        "treat without diagnosis": lambda: treat(model, None),
        "treat without model": lambda: treat(None, result),
        "treat without steps": lambda: treat(model, result, spend=0),
        "treat without batches": lambda: treat(model, result, batches=[]),
        "treat with one batch": lambda: treat(model, result, batches=pair),
        "treat with a number": lambda: treat(model, result, batches=3),
        "compare without batches": lambda: compare(
            [Contender("a", model, None)], iter([]), loss=F.cross_entropy
        ),
        "compare models": lambda: compare([model], [pair], loss=F.cross_entropy),
        "diff with nothing": lambda: result.diff(None),
        "diff with a treatment": lambda: result.diff(
            Treatment(
                before=result,
                after=result,
                recipe=None,
                attempts=(),
                verification=Verification((), 0),
                helped=False,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                spent=0,
            )
        ),
        "save nowhere": lambda: result.save(None),
        "watch nothing": lambda: watch(None),
        "every half step": lambda: watch(model, every=2.5),
        "every step of none": lambda: watch(model, every=0),
        "watch no block": lambda: watch(model, blocks=[]),
        "log in a file": lambda: watch(model, log=file).__enter__(),
        "log below a file": lambda: watch(model, log=file / "deeper").__enter__(),
    }


def answer(case):
    try:
        case()
    except Exception as error:
        return type(error).__name__, str(error), type(error.__cause__).__name__
    return "nothing", "", ""


EXPECTED = {
    "no model": "torch.nn.Module, but a NoneType",
    "a name": "torch.nn.Module, but a str",
    "a function": "torch.nn.Module, but a builtin",
    "no parameters": "nothing to measure",
    "a failing model": "cannot take .* KeyError: 'mask'",
    "inputs alone": r"without targets: call diagnose\(model, x, y\)",
    "a triple": r"tuple of 3 was given; pass several inputs as \(\(a, b\), targets\)",
    "KeyError": r"loss could not be computed .* KeyError: 'a'\.",
    "ZeroDivisionError": "ZeroDivisionError: division by zero",
    "AssertionError": r"\(torch.int64\): AssertionError\.",
    "optimizer's class": "but a class was given; build it from model.parameters",
    "optimizer's name": "but a str was given; build it from model.parameters",
    "no blocks": "blocks is empty",
    "numbers of blocks": "blocks takes names, but a int",
    "a number of a block": "blocks takes names, but a int",
    "a module": "blocks takes names, but a Linear",
    "half a block": "most_blocks is a whole number of at least 2, but 2.5",
    "half a step": "steps is a whole number of at least 1, but 1.5",
    "no step": "steps is a whole number of at least 1, but 0",
    "memory in words": "memory is a number above 0 and at most 1e\\+09, but '4'",
    "memory not a number": "memory is a number above 0 and at most 1e\\+09, but nan",
    "list of thresholds": "mapping or a TOML file, but a list",
    "threshold nan": "'dead_fraction' is a number above 0, but nan",
    "threshold below zero": "'dead_fraction' is a number above 0, but -5",
    "unknown finding": r"named 'zz'\. There are: .* and \d+ more\.",
    "treat without diagnosis": "what `diagnose` returned, but a NoneType",
    "treat without model": "torch.nn.Module, but a NoneType",
    "treat without steps": "spend is a whole number of at least 300, but 0",
    "treat without batches": "No batch was given",
    "treat with one batch": "but a Tensor was given",
    "treat with a number": "list or a loader of pairs .* but a int",
    "compare without batches": "No batch was given",
    "compare models": r"give Contender\(name, model, optimizer\)",
    "diff with nothing": "but a NoneType was given",
    "diff with a treatment": "give .before or .after",
    "save nowhere": "but a NoneType was given",
    "watch nothing": "torch.nn.Module, but a NoneType",
    "every half step": "every is a whole number of at least 1, but 2.5",
    "every step of none": "every is a whole number of at least 1, but 0",
    "watch no block": "blocks is empty",
    "log in a file": "cannot be written: Not a directory",
    "log below a file": "cannot be written: Not a directory",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    with unchecked():
        asked = cases(tmp_path_factory.mktemp("log"))
        return {name: answer(case) for name, case in asked.items()}


@pytest.mark.parametrize("name", list(EXPECTED))
def test_one_sentence(said, name):
    kind, text, _ = said[name]
    assert kind in ("UsageError", "UnknownName", "BatchMisfit"), (kind, text)
    assert re.search(EXPECTED[name], text), text
    assert "\n" not in text


def test_all_are_expected_and_the_users_own_error_is_chained(said):
    assert said.keys() == EXPECTED.keys()
    own = ("KeyError", "ZeroDivisionError", "AssertionError")
    assert [said[name][2] for name in own] == list(own)
