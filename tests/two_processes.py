"""Two real processes that meet over gloo, for tests of what several processes do together."""

import multiprocessing
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def _process(rank: int, port: int, folder: Path, target: Callable[[int, Path], object]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=900),
    )
    torch.save(target(rank, folder), folder / f"{rank}.pt")
    dist.destroy_process_group()


def start(folder: Path, target: Callable[[int, Path], object]) -> list[multiprocessing.Process]:
    """Start `target(rank, folder)` in two processes forked from this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_process, args=(rank, port, folder, target)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    return processes


def results(folder: Path, target: Callable[[int, Path], object]) -> list[object]:
    """What `target(rank, folder)` returns in each of two processes."""
    processes = start(folder, target)
    for process in processes:
        process.join(900)
    assert [process.exitcode for process in processes] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]
