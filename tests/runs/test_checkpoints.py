import json
import os
import pickle
import shutil

import pytest
import torch

from bathyscope.core.errors import BathyscopeError
from bathyscope.core.files import DiskFull
from bathyscope.runs import checkpoints as module
from bathyscope.runs import load_checkpoint, save_checkpoint


def saved(folder, step):
    weights = {"w": torch.full((3,), float(step)), "n": torch.tensor(step)}
    return save_checkpoint(
        folder, step, weights=weights, state={"step": step, "rng": torch.arange(4)}
    )


def test_what_is_loaded_is_what_was_saved(tmp_path):
    shared = torch.randn(4, 4)
    weights = {"a": shared, "tied": shared, "view": shared.t()}
    save_checkpoint(tmp_path, 7, weights=weights, state={"x": 0.1, "deep": [{"k": shared}]})
    result = load_checkpoint(tmp_path)
    assert result.step == 7
    assert result.notes == ()
    assert all(torch.equal(result.weights[k], weights[k]) for k in weights)
    assert result.state["x"] == 0.1
    assert torch.equal(result.state["deep"][0]["k"], shared)


def test_two_generations_are_kept(tmp_path):
    for step in (1, 5, 12):
        saved(tmp_path, step)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
        "step-000000005",
        "step-000000012",
    ]
    assert load_checkpoint(tmp_path).step == 12


def test_none_where_there_is_none(tmp_path):
    assert load_checkpoint(tmp_path) is None


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "index.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "removed"])
def test_a_damaged_checkpoint_falls_back_and_says_so(tmp_path, name, damage):
    saved(tmp_path, 1)
    path = saved(tmp_path, 2) / name
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    else:
        path.unlink()
    result = load_checkpoint(tmp_path)
    assert result.step == 1
    assert "step-000000002 was passed over" in result.notes[0]


def test_only_damaged_ones_are_an_error(tmp_path):
    (saved(tmp_path, 1) / "state.pt").write_bytes(b"")
    with pytest.raises(BathyscopeError, match=r"No checkpoint .* can be read.*Restart"):
        load_checkpoint(tmp_path)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


@pytest.mark.parametrize("form", ["pickle", "torch"])
@pytest.mark.parametrize("honest_index", [True, False])
def test_a_pickle_is_refused_and_never_run(tmp_path, monkeypatch, form, honest_index):
    mark = tmp_path / "exploded"
    monkeypatch.setenv("BOMB", str(mark))
    folder = saved(tmp_path, 1)
    if form == "pickle":
        (folder / "state.pt").write_bytes(pickle.dumps(Bomb()))
    else:
        torch.save(Bomb(), folder / "state.pt")
    if not honest_index:  # an attacker who also mends the index
        import hashlib

        data = (folder / "state.pt").read_bytes()
        index = json.loads((folder / "index.json").read_text())
        index["state.pt"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(BathyscopeError, match="can be read"):
        load_checkpoint(tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("failing_write", [0, 1, 2])
def test_a_full_disk_leaves_the_last_checkpoint_and_no_rubbish(
    tmp_path, monkeypatch, failing_write
):
    saved(tmp_path, 1)
    written = []

    def fill_up(path, contents):
        if len(written) == failing_write:
            path.write_bytes(contents[:10])
            raise OSError(28, "No space left on device")
        written.append(path)
        path.write_bytes(contents)

    monkeypatch.setattr(module, "write_durably", fill_up)
    with pytest.raises(DiskFull, match="no room"):
        saved(tmp_path, 2)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000000001"]
    assert load_checkpoint(tmp_path).step == 1


def test_a_crash_in_the_middle_of_a_save_is_cleared_away(tmp_path):
    saved(tmp_path, 1)
    half = tmp_path / "checkpoints" / ".step-000000002.0.99999.a.tmp"
    shutil.copytree(tmp_path / "checkpoints" / "step-000000001", half)
    assert load_checkpoint(tmp_path).step == 1
    saved(tmp_path, 2)
    assert not half.exists()


@pytest.mark.parametrize("index", ["[]", "3", '{"state.pt": 5}', '{"weights.safetensors": {}}'])
def test_an_index_of_another_type_falls_back(tmp_path, index):
    saved(tmp_path, 1)
    (saved(tmp_path, 2) / "index.json").write_text(index)
    result = load_checkpoint(tmp_path)
    assert result.step == 1
    assert "step-000000002 was passed over" in result.notes[0]


def test_a_state_without_its_keys_falls_back(tmp_path):
    saved(tmp_path, 1)
    save_checkpoint(tmp_path, 2, weights={"w": torch.ones(1)}, state={"step": 2})
    assert load_checkpoint(tmp_path).step == 2
    result = load_checkpoint(tmp_path, keys=("step", "rng"))
    assert result.step == 1
    assert "state.pt lacks rng" in result.notes[0]


def test_a_stray_folder_among_checkpoints_is_left_alone(tmp_path):
    saved(tmp_path, 1)
    (tmp_path / "checkpoints" / "step-abc").mkdir()
    assert load_checkpoint(tmp_path).step == 1
    for step in (2, 3):
        saved(tmp_path, step)
    assert (tmp_path / "checkpoints" / "step-abc").is_dir()
    assert load_checkpoint(tmp_path).step == 3
