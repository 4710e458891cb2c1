"""The presets `printed` and `cited`, where memory allows: two steps of every network, every computation.

Networks, batch sizes, depths, learning rates and samples used are those of the preset; the images are
drawn at random in the form of the true set, and training takes two steps or epochs with one seed.
"""

import math

import pytest
import torch

from bathyscope import data
from bathyscope.data import DataSet
from bathyscope.papers.norm_preservation.studies import figure_2
from bathyscope.runs import read_run
from bathyscope.studies import all_studies, examples, trial
from bathyscope.studies.store import perform
from bathyscope.studies.trial import TrainingTask
from bathyscope.training import outcome_of

# A step of more layers at a batch of 128 holds more than 16 GB of activations.
DEEPEST = 300
# So does one of 101 layers on images of ImageNet's size: the network takes any.
LARGEST = 64


def tasks_of(study):
    return [] if study.original is None else study.tasks(study.original)


def paper_tasks():
    """One trial for every network and batch size of the papers' presets."""
    result = {}
    for study in all_studies().values():
        for task in tasks_of(study):
            if isinstance(task, TrainingTask):
                # of the grid of channels the last, which is the widest
                name = "three-layers" if isinstance(task, figure_2.ChannelTrial) else task.model
                key = (name, task.batch_size, task.projection, task.init, task.normalization)
                result[key] = task
    return list(result.values())


# More than about two seconds: Hessians of 9,600 rows, whitening, 164 layers.
LONG = {
    *(f"figure_4-{kind}-last" for kind in ("shortcut_1", "shortcut_2", "xavier", "orthogonal")),
    *(f"figure_{k}-{kind}-first" for k in (7, 8) for kind in ("shortcut_2", "orthogonal")),
    *("overhead-first", "figure_10-first", "figure_10-last"),
}


def paper_computations():
    """The first and the last computation of every study and kind, which are its smallest and largest."""
    groups = {}
    for name, study in all_studies().items():
        for task in tasks_of(study):
            if not isinstance(task, TrainingTask):
                kind = getattr(task, "kind", None)
                label = "-".join(filter(None, [name.partition(".")[2], kind]))
                groups.setdefault(label, []).append(task)
    for label, tasks in groups.items():
        for location, task in (("first", tasks[0]), ("last", tasks[-1])):
            marks = [pytest.mark.slow] if f"{label}-{location}" in LONG else []
            yield pytest.param(task, id=f"{label}-{location}", marks=marks)


def images_like(name, num_train=None, num_test=None, *, count=256):
    """As many samples as two steps need, in the form of the true set."""
    entry = data.entry(name)
    generator = torch.Generator().manual_seed(0)
    shape = [entry.shape[0], *(min(side, LARGEST) for side in entry.shape[1:])]
    x = torch.randn(count, *shape, generator=generator)
    y = torch.randint(entry.num_classes, (count,), generator=generator)
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
    outcome = outcome_of(tmp_path / "run")
    assert outcome.status == "diverged" or len(outcome.curve("loss")) == 2


@pytest.fixture
def drawn_images(monkeypatch):
    """Images of the true form; what other tests computed of the true ones is forgotten, and of these."""
    cached = (examples.images, examples.whitened_examples, examples.second_moments)
    monkeypatch.setattr(examples.data, "load", lambda name: images_like(name, count=2000))
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.parametrize("task", list(paper_computations()))
def test_computation(task, tmp_path, drawn_images):
    if getattr(task, "batch_size", 0) and task.depth > DEEPEST:
        pytest.skip(f"{task.depth} layers at a batch of {task.batch_size} need too much memory")
    settings = {"epochs": 2, "seeds": 1, "steps": 1}
    short = task.model_copy(update={k: v for k, v in settings.items() if hasattr(task, k)})
    perform(short, tmp_path / "run")
    _, manifest, records = read_run(tmp_path / "run")
    assert manifest.status == "finished"
    rows = [record for record in records if record["kind"] == "row"]
    assert len(rows) >= len(getattr(task, "rates", [0]))
    for row in rows:
        numbers = [value for value in row.values() if isinstance(value, float)]
        assert numbers
        assert not any(math.isnan(value) for value in numbers)
