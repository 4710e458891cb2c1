"""A process of its own for a test, forked so that torch need not be loaded again."""

import ctypes
import gc
import importlib
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from tests.unchecked import unchecked

T = TypeVar("T")


def result_in_fork(function: Callable[[], T]) -> T:
    """What the function returns in a fork without checks of types, whose resident memory is all in use."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    finally:
        process.join()


def _send_result(function: Callable[[], T], send: Connection) -> None:
    gc.collect()
    # What the parent had freed would hide that memory grows: it goes back to the system, and comes again.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    with unchecked():
        send.send(function())


class Program:
    """A program of Python that runs in a fork, whose streams, exit code and signals are its own.

    It begins as a new process would: without the objects of the tests before (a watch
    looks through all that live), without the checks of types, with the interrupts of a shell's foreground.

    Attributes:
        pid: of the process.
        stdout: the file that it writes to.
        stderr: likewise.
    """

    def __init__(self, function: Callable[[], object], cwd: Path | None = None) -> None:
        self.stdout, self.stderr = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        importlib.import_module("torch._dynamo")  # the first optimizer wants it, and it takes long
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                code = self._run(function, cwd)
            finally:
                os._exit(code)

    def _run(self, function: Callable[[], object], cwd: Path | None) -> int:
        gc.freeze()
        for number, file in ((1, self.stdout), (2, self.stderr)):
            os.dup2(file.fileno(), number)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if cwd is not None:
            os.chdir(cwd)
            sys.path.insert(0, str(cwd))
        try:
            with unchecked():
                function()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def written(self) -> str:
        """What it has written to standard output so far."""
        return os.pread(self.stdout.fileno(), 1 << 20, 0).decode()

    def ended(self) -> "subprocess.CompletedProcess[str]":
        """Its end, with what it wrote."""
        _, status = os.waitpid(self.pid, 0)
        texts = []
        for file in (self.stdout, self.stderr):
            file.seek(0)
            texts.append(file.read().decode())
            file.close()
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess((), code, *texts)


def ranks(function: Callable[[], object], *, size: int) -> list[Program]:
    """The same program in several processes that find one another as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def of(rank: int) -> Callable[[], object]:
        def run() -> None:
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in names.items()})
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            function()

        return run

    return [Program(of(rank)) for rank in range(size)]


def command(*text: object) -> Callable[[], object]:
    """What `bathyscope` with these arguments does, for a `Program`."""
    from bathyscope.cli import main

    def run() -> None:
        sys.argv[:] = ["bathyscope", *map(str, text)]
        main()

    return run


def script(path: Path) -> Callable[[], object]:
    """What `python path` does, for a `Program`."""
    return lambda: runpy.run_path(str(path), run_name="__main__")
