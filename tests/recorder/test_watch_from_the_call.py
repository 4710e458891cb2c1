"""A watch records from the call on, with a `with` block or without one."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UsageError


def _train(model: nn.Module, *, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


def _mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_it_records_without_a_with_block_until_it_is_removed():
    model = _mlp()
    seen = bs.watch(model)
    assert seen.is_recording
    assert "watch.remove()" in str(seen)
    _train(model, steps=3)
    seen.remove()
    _train(model, steps=2)
    assert seen.steps == 3
    assert not seen.is_recording
    assert "watch.remove()" not in str(seen)


def test_a_with_block_entered_later_continues_the_same_record():
    model = _mlp()
    seen = bs.watch(model)
    _train(model, steps=2)
    with seen:
        _train(model, steps=3)
        with pytest.raises(UsageError, match="entered already"):
            seen.__enter__()
    assert seen.steps == 5
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_the_end_of_the_program_writes_what_is_open(tmp_path):
    program = f"""
import torch, bathyscope as bs
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
bs.watch(model, log={str(tmp_path / "log")!r})
for _ in range(3):
    model(torch.randn(8, 4)).square().mean().backward()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    rows = (tmp_path / "log" / "steps.jsonl").read_text().splitlines()
    assert len(rows) == 3
