"""Each paper preset: two steps with its true network and batch size, where memory allows."""

import pytest
import torch

from bathyscope import data
from bathyscope.data import DataSet
from bathyscope.studies import STUDIES, trial
from bathyscope.studies.norm_preservation import figure_2
from bathyscope.studies.store import perform
from bathyscope.studies.trial import Trial
from bathyscope.training import recorded

# A step of more layers at a batch of 128 holds more than 16 GB of activations.
DEEPEST = 300
# So does one of 101 layers on images of ImageNet's size: the network takes any.
LARGEST = 64


def paper_tasks():
    """One task for every network and batch size of the paper presets, and every computation."""
    found = {}
    for study in STUDIES.values():
        for task in study.tasks(study.presets["paper"]):
            if isinstance(task, Trial):
                # of the grid of channels the last, which is the widest
                name = "three-layers" if isinstance(task, figure_2.ChannelTrial) else task.model
                key = (name, task.batch_size, task.projection, task.init, task.normalisation)
                found[key] = task
    return list(found.values())


def images_like(name, num_train, num_test):
    """As many samples as two steps need, in the form of the true set."""
    entry = data.entry(name)
    generator = torch.Generator().manual_seed(0)
    shape = [entry.shape[0], *(min(side, LARGEST) for side in entry.shape[1:])]
    x = torch.randn(256, *shape, generator=generator)
    y = torch.randint(entry.num_classes, (256,), generator=generator)
    ones = torch.ones(entry.shape[0])
    return DataSet(name, x, y, x[:32], y[:32], entry.num_classes, 0 * ones, ones, True)


@pytest.mark.slow
@pytest.mark.parametrize("task", paper_tasks(), ids=lambda t: f"{t.model}-{t.data}")
def test_two_steps(task, tmp_path, monkeypatch):
    depth = getattr(task, "depth", 0) if task.batch_size else 0
    if depth > DEEPEST:
        pytest.skip(f"{depth} layers at a batch of {task.batch_size} need too much memory")
    for module in (trial, figure_2):
        monkeypatch.setattr(module, "images", images_like)
    if task.batch_size is None and not data.is_present(task.data):
        pytest.skip(f"{task.data} is not here")
    short = task.model_copy(
        update={
            "max_steps": 2,
            "watch_every": 0,
            "watch_at": (),
            "evaluate_every": 0,
            "log_every": 1,
        }
        | ({"watch": ()} if task.batch_size else {"watch": ("norms",)})
    )
    perform(short, tmp_path / "run")
    outcome = recorded(tmp_path / "run")
    assert outcome.status == "diverged" or len(outcome.curve("loss")) == 2
