"""Checkpoints that appear whole: two generations, so that a damaged one costs minutes and no run.

checkpoints/step-000000120/weights.safetensors   the model
                           state.pt              the rest, read with weights_only=True
                           index.json            size and SHA-256 of both, written last
"""

import hashlib
import io
import json
import os
import pickle
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.files import explain_write_errors, read_json, write_durably, write_folder

CHECKPOINTS = "checkpoints"
WEIGHTS = "weights.safetensors"
_STATE = "state.pt"
_INDEX = "index.json"
_GENERATIONS = 2
_HINT = "free some space and resume"


class DamagedCheckpoint(BathyscopeError):
    """A checkpoint is not what was written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was saved, and the damaged checkpoints that were passed over to find it."""

    step: int
    weights: dict[str, Tensor]
    state: dict[str, Any]
    notes: tuple[str, ...] = ()


def save_checkpoint(
    run_folder: Path, step: int, *, weights: Mapping[str, Tensor], state: Mapping[str, object]
) -> Path:
    """Save the weights and the rest of the state under a step's number; keep the two newest.

    The files are written beside, synced, and renamed into place as one folder: a crash at any moment
    leaves the earlier checkpoints as they were.

    Args:
        run_folder: the run.
        step: by which checkpoints are ordered.
        weights: tensors by name; those that share memory are written one by one.
        state: tensors, numbers, strings, and lists and dicts of them.

    Raises:
        DiskFull: there is no room; nothing is left of the attempt.
    """
    store = run_folder / CHECKPOINTS
    target = store / f"step-{step:09d}"
    with explain_write_errors(store, hint=_HINT):
        store.mkdir(exist_ok=True)
    for stale in store.glob(".*.tmp"):  # whoever wrote them: the run is locked, and ours
        shutil.rmtree(stale, ignore_errors=True)
    with write_folder(target, hint=_HINT) as folder:
        _write(folder, weights, state)
    for old in _newest_first(run_folder)[_GENERATIONS:]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def load_checkpoint(run_folder: Path | str, *, keys: Collection[str] = ()) -> Checkpoint | None:
    """The newest checkpoint that is whole; None where the run has none.

    Args:
        run_folder: the run.
        keys: that the state must have; a checkpoint without them is passed over.

    Raises:
        BathyscopeError: there are checkpoints, but every one is damaged.
    """
    notes: list[str] = []
    result = _newest_first(check_path("run_folder", run_folder))
    for folder in result:
        try:
            weights, state = _read(folder, keys)
        except DamagedCheckpoint as error:
            notes.append(f"The checkpoint {folder.name} was passed over: {error}")
            continue
        return Checkpoint(int(folder.name.removeprefix("step-")), weights, state, tuple(notes))
    if result:
        raise BathyscopeError(
            f"No checkpoint of {run_folder} can be read. {' '.join(notes)} "
            "Restart the run to train it again."
        )
    return None


def stored_weights(run_folder: Path | str) -> list[tuple[int, dict[str, Tensor]]]:
    """The weights of every checkpoint that can be read, with its step, newest first."""
    result = []
    for folder in _newest_first(check_path("run_folder", run_folder)):
        try:
            weights, _ = _read(folder, ())
        except DamagedCheckpoint:
            continue
        result.append((int(folder.name.removeprefix("step-")), weights))
    return result


def keep_weights(run_folder: Path) -> None:
    """Put the newest checkpoint's weights at `weights.safetensors` of the run, without a second copy
    where the file system can link."""
    source, target = _newest_first(run_folder)[0] / WEIGHTS, run_folder / WEIGHTS
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _newest_first(run_folder: Path) -> list[Path]:
    result = (run_folder / CHECKPOINTS).glob("step-*")
    return sorted((f for f in result if re.fullmatch(r"step-\d{9,18}", f.name)), reverse=True)


def _write(folder: Path, weights: Mapping[str, Tensor], state: Mapping[str, object]) -> None:
    # A clone each: safetensors refuses tensors that share memory, as tied weights do.
    separate = {k: v.detach().cpu().clone().contiguous() for k, v in weights.items()}
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    contents = {WEIGHTS: safetensors.torch.save(separate), _STATE: buffer.getvalue()}
    index = {}
    for name, data in contents.items():
        write_durably(folder / name, data)
        index[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_durably(folder / _INDEX, json.dumps(index, indent=1).encode())


def _read(folder: Path, keys: Collection[str]) -> tuple[dict[str, Tensor], dict[str, object]]:
    try:
        index = read_json(folder / _INDEX, what="index of a checkpoint")
        contents = {name: (folder / name).read_bytes() for name in (WEIGHTS, _STATE)}
    except (OSError, UsageError) as error:
        raise DamagedCheckpoint(str(error)) from None
    for name, data in contents.items():
        entry = index.get(name) if isinstance(index, dict) else None
        if not isinstance(entry, dict):
            raise DamagedCheckpoint(f"{_INDEX} does not name {name}.")
        if entry.get("bytes") != len(data):
            raise DamagedCheckpoint(f"{name} has {len(data)} of {entry.get('bytes')} bytes.")
        if entry.get("sha256") != hashlib.sha256(data).hexdigest():
            raise DamagedCheckpoint(f"{name} is not what was written.")
    try:
        weights = safetensors.torch.load(contents[WEIGHTS])
        state = torch.load(io.BytesIO(contents[_STATE]), weights_only=True, map_location="cpu")
    except SafetensorError as error:
        raise DamagedCheckpoint(f"{WEIGHTS} is not a safetensors file ({error}).") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedCheckpoint(f"{_STATE} is refused: {reason}") from None
    if not isinstance(state, dict):
        raise DamagedCheckpoint(f"{_STATE} holds a {type(state).__name__}, not a state.")
    if lacking := [key for key in keys if key not in state]:
        raise DamagedCheckpoint(f"{_STATE} lacks {', '.join(lacking)}.")
    return weights, state
