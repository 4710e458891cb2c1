"""A reduced run of `python -m benchmarks fuzz` and `soak`: no defect may appear."""

import random
from collections.abc import Iterator

import pytest

import bathyscope as bs
from bathyscope.core.errors import UsageError
from benchmarks import fuzz, soak
from benchmarks.fuzzing.arguments import FUNCTIONS
from benchmarks.fuzzing.calls import CALLS
from benchmarks.fuzzing.judge import Outcome, judge
from benchmarks.fuzzing.odd import NAMES, ODD, odd_model
from tests.unchecked import unchecked


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Everything here is given wrong things on purpose."""
    with unchecked():
        yield


def defects(outcomes):
    return [f"{name}: {outcome.what}" for name, outcome in outcomes if outcome.kind == "defect"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [name for name in CALLS if name != "diagnose full"])
def test_odd_models(call):
    numbers = random.Random(call).sample(range(len(ODD)), k=8)
    result = {NAMES[n]: fuzz.one_call(call, odd_model(n)) for n in numbers}
    assert defects(result.items()) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("call", "number"),
    [("diagnose", 300150), ("save", 300367), ("apply_ and undo", 400219)],
    ids=["computed weights stay", "a flat panel", "an empty layer"],
)
def test_what_was_once_a_defect(call, number):
    assert fuzz.one_call(call, odd_model(number)).kind == "answered"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_call_on_every_odd_model():
    pairs = [(call, number) for call in CALLS for number in range(len(ODD))]
    outcomes = ((f"{c} {NAMES[n]}", fuzz.one_call(c, odd_model(n))) for c, n in pairs)
    assert defects(outcomes) == []


@pytest.mark.filterwarnings("ignore")
def test_bad_arguments():
    assert defects(fuzz.argument_outcomes(120)) == []


@pytest.mark.filterwarnings("ignore")
def test_command_lines():
    assert defects(fuzz.command_outcomes(25, start=25)) == []


@pytest.mark.filterwarnings("ignore")
def test_damaged_files():
    assert defects(fuzz.file_outcomes(15)) == []


def test_the_public_face_is_called_with_odd_models_and_with_bad_arguments():
    face = {"diagnose", "treat", "forecast", "watch", "blocks_of", "hessian"}
    questions = {f"H.{name}" for name in ("extremes", "density", "trace", "condition_number")}
    questions |= {"H.negative_index", "H.by_block", "H @ v"}
    doing = {
        "remedies.procrustes_",
        "remedies.apply_",
        "inits.apply_",
        "nets.build",
        "claims.check",
    }
    assert face | questions | doing | {"conv_singular_values", "data.load"} <= set(FUNCTIONS)
    on_models = {call.split()[0] for call in CALLS}
    assert face | {"apply_", "certify", "evaluate", "autopsy"} <= on_models
    measures = {f"measure.{name}" for name in bs.measure.__all__} - {"measure.attention_heads"}
    assert measures <= on_models & set(FUNCTIONS)


def raises(error):
    raise error


def test_the_judge_tells_the_kinds_of_outcome_apart():
    assert judge(lambda: 1) == Outcome("answered")
    assert judge(lambda: raises(UsageError("no such thing."))).kind == "refused"
    assert judge(lambda: raises(UsageError("two\nlines"))).kind == "defect"
    assert judge(lambda: raises(TypeError("raw"))).kind == "defect"
    own = judge(lambda: raises(TypeError("raw")), own=lambda: raises(TypeError("the same")))
    assert own.kind == "own"


def test_a_model_that_is_changed_is_a_defect(monkeypatch):
    monkeypatch.setitem(CALLS, "changes", lambda case: case.model.eval())
    outcome = fuzz.one_call("changes", odd_model(0))
    assert (outcome.kind, outcome.what) == ("defect", "changed: mode of the model")


def test_growth_of_memory_is_a_slope():
    assert soak.growth([5, 7, 9, 11]) == 2.0
    assert soak.growth([3]) == 0.0
