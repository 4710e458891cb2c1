"""What a watch says, in one sentence, of loops that train nothing or in a way of their own."""

import json

import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.core.batch import check_parameters
from bathyscope.core.errors import UsageError
from bathyscope.recorder import recording


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def batch():
    return torch.randn(16, 4)


def test_a_model_without_parameters():
    with pytest.raises(
        UsageError, match=r"\(ReLU\) has no parameters; there is nothing to measure"
    ):
        bs.watch(nn.ReLU())


def test_two_models_at_once():
    with pytest.raises(UsageError, match="a list was given; give one of them; each other one"):
        check_parameters([network(), network()])  # what `watch` asks first


def test_two_models_by_a_watch_each_are_told_apart():
    first, second = network(), network()
    steps = [(net, torch.optim.SGD(net.parameters(), lr=0.1)) for net in (first, second)]
    with bs.watch(first) as one, bs.watch(second) as other:
        for step in range(6):
            for net, optimizer in steps[: 1 + step % 2]:
                optimizer.zero_grad()
                net(batch()).square().mean().backward()
                optimizer.step()
    assert (one.steps, other.steps) == (6, 3)


@pytest.mark.parametrize("passes", [0, 5])
def test_a_loop_that_trains_nothing(passes):
    net = network()
    with bs.watch(net) as seen, torch.no_grad():
        for _ in range(passes):
            net(batch())
        assert "nothing yet: no training step was seen" in str(seen)
    assert seen.steps == 0
    assert seen.findings == ()
    assert seen.not_checked == (
        "No backward pass and no step of an optimizer was seen: nothing was trained.",
    )
    assert "nothing was trained" in str(seen)


def test_a_model_whose_parameters_are_all_frozen(recwarn):
    net = network().requires_grad_(False)
    with bs.watch(net) as seen:
        for _ in range(5):
            net(batch())
    assert not [w for w in recwarn if "bathyscope" in str(w.message)]
    assert "nothing was trained" in str(seen)
    assert seen.events == ()


def test_a_watch_that_was_removed_records_nothing_more_and_can_be_removed_again():
    net = network()
    seen = bs.watch(net)
    net(batch()).sum().backward()
    seen.remove()
    seen.remove()
    net(batch()).sum().backward()
    assert not seen.is_recording
    assert seen.steps == 1


def test_a_watch_that_was_removed_at_once_has_no_page(tmp_path):
    seen = bs.watch(network())
    seen.remove()
    with pytest.raises(UsageError, match="no training step was seen by this watch"):
        seen.report(tmp_path / "watch.html")


def test_an_update_rule_of_ones_own_is_recorded_and_said_not_to_be_judged():
    net = network()
    with bs.watch(net, every=4) as seen:
        for _ in range(20):
            net(batch()).square().mean().backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    assert seen.steps == 20
    assert len(set(seen.table.step)) == 5
    assert seen.events == ()
    assert seen.not_checked == (
        "No optimizer of torch.optim took a step: weights that a rule of your own updates are not seen.",
    )
    assert "a rule of your own" in " ".join(str(seen).split())


def test_the_log_of_a_long_training_grows_by_as_many_lines_with_each_doubling(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recording, "_ALL_LOGGED", 32)
    net = network()
    with bs.watch(net, every=4, log=tmp_path) as seen:
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        for _ in range(256):
            optimizer.zero_grad()
            net(batch()).square().mean().backward()
            optimizer.step()
    assert seen.events == ()

    def steps_of(name):
        return sorted({json.loads(line)["step"] for line in (tmp_path / name).open()})

    steps, samples = steps_of("steps.jsonl"), steps_of("watch.jsonl")
    assert steps[:32] == list(range(32))
    assert [len([s for s in steps if a <= s < 2 * a]) for a in (32, 64, 128)] == [16, 16, 16]
    assert samples == [
        *range(0, 32, 4),
        *range(32, 64, 8),
        *range(64, 128, 16),
        *range(128, 256, 32),
    ]
