import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

from bathyscope.core import blocks_of, probe
from bathyscope.measure import activations, gradients
from bathyscope.recorder import watch
from bathyscope.recorder.event import Event
from bathyscope.recorder.samples import SampleObserver
from bathyscope.runs import read_metrics
from tests.diagnosis.networks import ResidualMLP, batch
from tests.support.model_state import state_of


def train(model, steps=7):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = batch()
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def built():
    torch.manual_seed(0)
    return ResidualMLP(5)


def test_records_every_kth_step_and_agrees_with_the_measurement(tmp_path):
    model = built()
    expected = gradients(model, batch(), loss=F.cross_entropy)
    moments = activations(model, batch(), loss=F.cross_entropy)
    with watch(model, every=3, log=tmp_path / "run") as seen:
        train(model)
    table = seen.table
    assert sorted(set(table.step)) == [0, 3, 6]
    first = table[table.step == 0].set_index("block")
    for block, ratio in zip(expected.blocks, expected["ratio"], strict=True):
        assert first.loc[block.label, "ratio"] == pytest.approx(ratio, rel=1e-4)
    for name in ("mean", "std"):
        assert list(first[name]) == pytest.approx(list(moments[name]), rel=1e-4, abs=1e-6)
    assert len(read_metrics(tmp_path / "run" / "watch.jsonl")) == len(table)
    assert table.finite.all()


def test_the_training_is_the_same_with_and_without_it():
    alone = train(built())
    model = built()
    hooks = [m[2:] for m in state_of(model)[2]]
    with watch(model, every=2, conditioning=True) as seen:
        watched = train(model)
    assert all(torch.equal(alone[n], watched[n]) for n in alone)
    assert [m[2:] for m in state_of(model)[2]] == hooks
    assert {"condition", "rank"} <= set(seen.table.columns)


def test_it_stops_at_once_when_removed_and_ignores_evaluation():
    model = built()
    with watch(model, every=1) as seen:
        train(model, steps=2)
        model.eval()
        model(batch()[0])
        model.train()
        with torch.no_grad():
            model(batch()[0])
        seen.remove()
        train(model, steps=2)
    assert sorted(set(seen.table.step)) == [0, 1]


def test_what_is_non_finite_is_recorded():
    model = built()
    with torch.no_grad():
        model.blocks[2].two.weight[0, 0] = float("inf")
    with watch(model, every=1) as seen:
        train(model, steps=1)
    table = seen.table.set_index("block")
    assert not table.loc["blocks.2", "finite"]


def test_a_failure_inside_never_reaches_the_loop(monkeypatch):
    model = built()

    def fails(*args, **kwargs):
        raise RuntimeError("inside")

    monkeypatch.setattr(sys.modules[watch.__module__], "find_blocks", fails)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watch(model, every=1) as seen:
            train(model, steps=3)
    assert len(seen.table) == 0
    assert sum("bathyscope.watch stopped" in str(w.message) for w in caught) == 1


def test_a_failure_on_the_way_leaves_no_hook_and_no_mode_behind(monkeypatch):
    model = built()

    def fails(self, block, x):
        raise RuntimeError("half way")

    monkeypatch.setattr(SampleObserver, "on_output", fails)
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    with watch(model, every=1):
        with pytest.warns(UserWarning, match="half way"):
            train(model, steps=1)
        assert torch.overrides._get_current_function_mode() is None
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()] == hooks


def test_a_probe_inside_a_watched_loop_is_no_step():
    model = built()
    with watch(model, every=1) as seen:
        train(model, steps=1)
        probe(model, batch(), loss=F.cross_entropy, blocks=blocks_of(model, batch()[0]))
    assert seen.steps == 1


def test_blocks_are_named_as_for_a_diagnosis():
    model = built()
    for blocks, seen in (
        (["blocks.0", "blocks.2"], {"blocks.0", "blocks.2"}),
        ("blocks.[34]", {"blocks.3", "blocks.4"}),
    ):
        with watch(model, every=1, blocks=blocks) as watched:
            train(model, steps=1)
        assert set(watched.table.block) == seen


def test_after_an_event_steps_are_read_ten_times_as_often_for_a_while(tmp_path):
    model = built()
    with watch(model, every=20, log=tmp_path / "run") as seen:
        train(model, steps=25)
        seen.recording.notify(Event(code="loss-spike", step=24, began="loss"))
        train(model, steps=37)
    reported_at = 25
    dense = set(range(reported_at, reported_at + 20)) & set(range(0, 62, 2))
    written = read_metrics(tmp_path / "run" / "watch.jsonl")
    assert {row["step"] for row in written} == {0, 20, 40, 60} | dense
    assert [e["code"] for e in read_metrics(tmp_path / "run" / "events.jsonl")] == ["loss-spike"]


def test_only_a_single_number_is_taken_for_the_loss():
    from bathyscope.recorder.entry_points import listen
    from bathyscope.recorder.loss_hook import LossHook

    seen = []
    remove = listen(LossHook(lambda loss: seen.append(float(loss)), on_failure=seen.append))
    try:
        x = torch.ones(3, requires_grad=True)
        (2 * x).sum().backward()
        (2 * x).backward(torch.ones(3))
    finally:
        remove()
    assert seen == [6.0]
