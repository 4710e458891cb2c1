"""What is reported after the crash: from a log, from metrics, from two states of the weights."""

import multiprocessing
import os
import signal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.recorder import autopsy_of_log, autopsy_of_metrics, autopsy_of_weights, watch
from tests.recorder.trainings import ResidualNet
from tests.unchecked import unchecked


def train_until_killed(log):
    torch.manual_seed(0)
    model = ResidualNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(32, 16)
    y = x[:, :4].argmax(1)
    with watch(model, every=10, log=log):
        for step in range(40):
            if step == 23:
                model.blocks[4].two.weight.data[0, 0] = torch.nan
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step == 26:
                os.kill(os.getpid(), signal.SIGKILL)


def test_a_run_killed_after_its_nan_still_tells_the_block_and_the_step(tmp_path):
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=train_until_killed, args=(tmp_path / "log",))
    process.start()
    process.join(900)
    assert process.exitcode == -signal.SIGKILL
    result = autopsy_of_log(tmp_path / "log")
    assert (result.began, result.events[0].step) == ("blocks.4", 23)
    assert "Step 23" in str(result)


def session(folder, state, *, seed, steps=30):
    """A part of a training that starts from a state of the weights; the state at its end."""
    torch.manual_seed(seed)
    model = ResidualNet()
    if state is not None:
        model.load_state_dict(state)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, every=7, log=folder) as seen:
        for _ in range(steps):
            x = torch.randn(32, 16)
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
            optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}, seen


def test_a_resume_with_corrupted_weights_is_told_from_the_log(tmp_path):
    state, first = session(tmp_path / "log", None, seed=0)
    assert (first.steps, first.events) == (30, ())
    state, second = session(tmp_path / "log", state, seed=1)
    assert (second.steps, second.events) == (30, ())
    assert "from step 30 on" in repr(second)
    assert "from step" not in repr(first)
    assert "up to step 59" in str(autopsy_of_log(tmp_path / "log"))
    state["blocks.4.one.weight"] *= 6
    session(tmp_path / "log", state, seed=2)
    result = autopsy_of_log(tmp_path / "log")
    assert (result.events[0].code, result.events[0].step) == ("weights-changed", 60)
    assert result.began == "blocks.4"
    assert "step 59: the log ended" in str(result)


def test_a_log_whose_weights_are_damaged_is_begun_anew_and_not_blamed(tmp_path):
    session(tmp_path, None, seed=0, steps=8)
    (tmp_path / "weights.json").write_text('{"step": "x"')
    _, seen = session(tmp_path, None, seed=0, steps=8)
    assert seen.events == ()


def test_two_states_of_the_weights_name_the_layer():
    torch.manual_seed(0)
    before = ResidualNet().state_dict()
    after = {name: value + 1e-3 * torch.randn_like(value) for name, value in before.items()}
    assert autopsy_of_weights(before, after).began is None
    after["blocks.2.one.weight"] = 5 * after["blocks.2.one.weight"]
    assert autopsy_of_weights(before, after).began == "blocks.2.one"
    after["blocks.3.two.bias"] = torch.full_like(after["blocks.3.two.bias"], torch.nan)
    after["stem.weight"] = torch.full_like(after["stem.weight"], torch.nan)
    result = autopsy_of_weights(before, after)
    assert result.began == "blocks.3.two"  # gradients run back: the last is the first
    assert result.layers[0].lost > 0


def test_weights_that_are_all_lost_do_not_tell_and_say_so():
    before = ResidualNet().state_dict()
    after = {name: torch.full_like(value, torch.nan) for name, value in before.items()}
    result = autopsy_of_weights(before, after)
    assert result.began is None
    assert "do not show where it began" in str(result)


def test_weights_of_two_models_are_refused():
    with pytest.raises(UsageError, match="no tensor of one name and shape"):
        autopsy_of_weights({"a.weight": torch.ones(2)}, {"b.weight": torch.ones(2)})


def test_metrics_without_blocks_tell_when():
    ordinary = [
        {"step": t, "loss": 2.0 - 0.02 * t + 0.01 * (t % 3), "gradient_norm": 1.0, "lr": 0.1}
        for t in range(60)
    ]
    assert autopsy_of_metrics(ordinary).events == ()
    jumped = [*ordinary, {"step": 60, "loss": 30.0, "gradient_norm": 90.0, "lr": 0.1}]
    result = autopsy_of_metrics(jumped)
    assert [(e.code, e.step) for e in result.events] == [("loss-spike", 60)]
    lost = [*ordinary, {"step": 60, "loss": float("nan"), "gradient_norm": 1.0, "lr": 0.1}]
    assert autopsy_of_metrics(lost).events[0].code == "non-finite"


@unchecked()
def test_weights_without_values_are_refused():
    for model in (nn.LazyLinear(3), nn.Linear(2, 3, device="meta")):
        with pytest.raises(UsageError, match="have no values"):
            autopsy_of_weights(model.state_dict(), model.state_dict())
    with pytest.raises(UsageError, match="mapping from names to tensors"):
        autopsy_of_weights({"a": 1}, {"a": 2})
