import pytest
import torch
from torch import nn

from bathyscope.training import TrainingConfig, fit
from bathyscope.training.trackers import TensorBoard

pytest.importorskip("tensorboard")


def test_the_scalars_are_the_metrics(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    x = torch.randn(40, 3)
    config = TrainingConfig(loss="mse", epochs=3, batch_size=20)
    outcome = fit(
        nn.Linear(3, 3), (x, x), config=config, test=(x, x), callbacks=[TensorBoard(tmp_path)]
    )
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    written = {e.step: e.value for e in events.Scalars("step/loss")}
    expected = dict(enumerate(outcome.curve("loss"), start=1))
    assert written == pytest.approx(expected, rel=1e-6)
    assert [e.step for e in events.Scalars("epoch/test_loss")] == [2, 4, 6]
