"""The manifest: where, when and with what a run was made, and how it ended."""

import functools
import json
import os
import platform
import socket
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, Field, ValidationError

from bathyscope.core.errors import BathyscopeError
from bathyscope.core.files import write_atomic

Status = Literal["running", "finished", "diverged", "stopped", "failed"]
"""As written. A run that says `running` while nobody holds its lock was interrupted."""

ENDED: tuple[Status, ...] = ("finished", "diverged")
"""The endings that are results: such a run is not run again."""

_PACKAGES = ("bathyscope", "torch", "numpy", "scipy", "scikit-learn", "safetensors")


class Manifest(BaseModel):
    """What a run's `manifest.json` holds.

    Attributes:
        status: how it stands; see `Status`.
        ending: the same in words: `finished`, `diverged at step 12 in block layer3.1`, `stopped …`.
        result: the last numbers, by name.
        notes: what a reader must know, such as a damaged checkpoint that was passed over.
        seeds: every seed the run used.
        started: when it was first started (UTC, ISO 8601).
        ended: when it ended.
        seconds: time spent in it, over all its starts.
        cpu_seconds: processor time of its process in that time, all threads together.
        starts: how often it was started or resumed.
        versions: of Python and the packages that decide the numbers.
        commit: of the user's working tree, with `+` where it had uncommitted changes.
        hardware: machine, processor, threads, GPU.
    """

    status: Status = "running"
    ending: str = "running"
    result: dict[str, object] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    seeds: list[int] = Field(default_factory=list)
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    starts: int = 0
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str = ""
    hardware: dict[str, object] = Field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write it atomically."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False)
        write_atomic(path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read it.

        Raises:
            BathyscopeError: it is not a manifest.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            raise BathyscopeError(
                f"{path} is not a run's manifest ({_short(error)}); restore the file, or restart "
                "the run."
            ) from None


def new_manifest(*, seeds: Iterable[int] = ()) -> Manifest:
    """A manifest of a run that starts now, here."""
    return Manifest(
        seeds=list(seeds),
        started=now(),
        versions=_versions(),
        commit=commit_of(str(Path.cwd())),
        hardware=_hardware(),
    )


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _hardware() -> dict[str, object]:
    hardware: dict[str, object] = {
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        hardware["gpu"] = torch.cuda.get_device_name()
    return hardware


@functools.cache
def commit_of(folder: str) -> str:
    """The commit of the working tree around a folder, or nothing where there is none."""

    def git(*text: str) -> str:
        done = subprocess.run(
            ["git", "-C", folder, *text], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"{error.error_count()} fields do not fit"
    return str(error)
