"""Every program of this folder does what it says: the faulty one ends worse than its corrected twin."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from tests.loops import healthy, held_out, programs, unseen


def program(name):
    folder = "held_out" if name in held_out.NAMES else "programs"
    return importlib.import_module(f"tests.loops.{folder}.{name}")


def test_every_program_is_listed():
    files = {path.stem for path in Path(programs.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(programs.NAMES)
    assert len(programs.NAMES) == 34
    assert len(programs.SCRIPTS) == 16


@pytest.mark.slow
@pytest.mark.parametrize("name", [*programs.NAMES, *held_out.NAMES])
def test_fault_ends_worse_than_its_corrected_twin(name):
    train = program(name).train
    for seed in range(2):
        assert train(True, seed) > 1.02 * train(False, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", unseen.PROGRAMS)
def test_unseen_fault_ends_worse_than_its_corrected_twin(name):
    train, _ = unseen.PROGRAMS[name]
    for seed in range(2):
        assert train(True, seed) > 1.02 * train(False, seed)


@pytest.mark.parametrize("name", ["lo04", "tc02", "tc16"])
def test_some_faults_end_worse(name):
    train = program(name).train
    assert train(True, 0) > 1.5 * train(False, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", healthy.LOOPS)
def test_healthy_loop_learns(name):
    torch.manual_seed(0)
    first, last = healthy.LOOPS[name]()
    assert math.isfinite(last)
    assert last < 0.9 * first
