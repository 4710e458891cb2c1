"""What could not be checked is said with a plain reason."""

from bathyscope.core.loop_record import LoopRecord, OptimizerUse
from bathyscope.recorder.loop_findings import not_checked


def test_classes_that_were_not_seen_have_a_reason():
    record = LoopRecord(steps=8, optimizers=[OptimizerUse(0, "AdamW", steps=8)])
    assert any("the model computes its loss itself" in note for note in not_checked(record))
