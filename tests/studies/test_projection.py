"""The remedy inside a run: at work from the first step, and exact to resume."""

import contextlib

import torch

from bathyscope.linalg import conv_singular_values
from bathyscope.runs import load_checkpoint
from bathyscope.studies.projection import Projection
from bathyscope.studies.trial import TrainingTask
from bathyscope.training import Callback, Saving, outcome_of, train

SETTINGS = {
    "model": "procresnet-13",
    "num_train": 96,
    "num_test": 32,
    "epochs": 1,
    "batch_size": 32,
    "lr": 0.05,
}


def test_singular_values_stand_at_their_target(tmp_path):
    trial = TrainingTask(
        **SETTINGS | {"batch_size": 24}, projection="isotropic"
    )  # 4 steps: the last projects
    trial.run(tmp_path / "run")
    weights = load_checkpoint(tmp_path / "run").weights
    kernel = weights["blocks.1.entry.weight"]
    values = conv_singular_values(kernel, 4).values
    assert torch.allclose(values, torch.full_like(values, 2**0.5), rtol=0.02)


class Stop(Callback):
    """Ends the process' patience after this many steps, as a signal would."""

    def __init__(self, after):
        self.after = after

    def on_step(self, loop, record):
        if loop.step == self.after:
            raise KeyboardInterrupt


def test_a_run_with_the_remedy_resumes_exactly(tmp_path):
    trial = TrainingTask(**SETTINGS, projection="isotropic")
    data, test = trial.examples()

    def go(folder, *more):
        return train(
            trial.build,
            data,
            config=trial,
            folder=folder,
            test=test,
            callbacks=[Projection("isotropic"), *more],
            saving=Saving(every_steps=1),
        )

    whole = go(tmp_path / "whole")
    with contextlib.suppress(KeyboardInterrupt):
        go(tmp_path / "cut", Stop(2))
    assert load_checkpoint(tmp_path / "cut").step == 1, "odd: the remedy's own count matters"
    go(tmp_path / "cut")
    assert outcome_of(tmp_path / "cut").result == whole.result
    one, two = (load_checkpoint(tmp_path / part).weights for part in ("whole", "cut"))
    assert all(torch.equal(one[name], two[name]) for name in one)
