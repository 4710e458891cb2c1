"""A function over items in processes of this machine, one of which dies."""

import importlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch

from bathyscope.core.errors import BathyscopeError
from bathyscope.sweep import local, map_over, on_executor
from bathyscope.sweep.backends import PRELOADED


def squared(number: int) -> int:
    return number**2


def squared_but(number: int, *, folder: Path, deadly: int, always: bool) -> int:
    """Ends its process at one number: at its first try, or whenever it is tried."""
    mark = folder / "died"
    if number == deadly and (always or not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return squared(number)


def refuse(number: int) -> int:
    raise ValueError(f"no {number}")


def test_results_stand_in_the_order_of_the_items():
    reported = []
    outcome = map_over(
        squared, [3, 1, 2], backend=local(2), on_result=lambda item, result: reported.append(item)
    )
    assert outcome == [9, 1, 4]
    assert sorted(reported) == [1, 2, 3]
    assert map_over(squared, [], backend=local(1)) == []


def test_a_worker_that_dies_loses_nothing(tmp_path):
    work = partial(squared_but, folder=tmp_path, deadly=4, always=False)
    assert map_over(work, list(range(9)), backend=local(2)) == [i**2 for i in range(9)]
    assert (tmp_path / "died").exists()


def test_an_item_that_ends_its_worker_alone_is_named(tmp_path):
    work = partial(squared_but, folder=tmp_path, deadly=1, always=True)
    with pytest.raises(BathyscopeError, match=r"killed.* at 1, twice"):
        map_over(work, [0, 1, 2], backend=local(2))


def test_what_the_function_raises_comes_through():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="no 5"):
        map_over(refuse, [5], backend=on_executor(executor))


def test_what_workers_are_forked_from_loads_more_than_names():
    """A package of lazy names would leave torch to each of the workers."""
    for name in PRELOADED:
        module = importlib.import_module(name)
        assert not hasattr(module, "__path__") or not name.startswith("bathyscope")


def num_threads(_: int) -> int:
    return torch.get_num_threads()


def test_workers_share_the_cores():
    assert map_over(num_threads, [0], backend=local(1)) == [os.cpu_count()]
    assert map_over(num_threads, [0], backend=local(4)) == [max(1, os.cpu_count() // 4)]
