import math

import pytest
import torch

from bathyscope.runs import read_run, table
from bathyscope.training.trackers import log_run


def test_a_loop_of_ones_own_stands_in_the_table(tmp_path):
    with log_run(tmp_path, "mine", settings={"lr": 0.1, "net": {"depth": 3}}) as logger:
        for step in range(1, 4):
            logger.log(step, {"loss": torch.tensor(1.0 / step), "accuracy": 0.5})
    row = table(tmp_path).iloc[0]
    assert row["run"].startswith("mine-")
    assert (row["lr"], row["net.depth"], row["status"]) == (0.1, 3, "finished")
    assert row["loss"] == pytest.approx(1 / 3)
    assert len(read_run(logger.folder)[2]) == 3


def test_a_loss_that_is_non_finite_ends_it_as_diverged(tmp_path):
    with log_run(tmp_path, "mine") as logger:
        logger.log(1, {"loss": 1.0})
        logger.log(2, {"loss": math.inf})
        logger.log(3, {"loss": math.nan})
    manifest = read_run(logger.folder)[1]
    assert (manifest.status, manifest.ending) == ("diverged", "diverged at step 2")


def test_an_exception_ends_it_as_failed_and_goes_on(tmp_path):
    with pytest.raises(ZeroDivisionError), log_run(tmp_path, "mine") as logger:
        logger.log(1, {"loss": 1 / 0})
    assert read_run(logger.folder)[1].status == "failed"
    assert "ZeroDivisionError" in (logger.folder / "failure.txt").read_text()


def test_a_second_start_begins_anew(tmp_path):
    for count in (3, 2):
        with log_run(tmp_path, "mine") as logger:
            for step in range(count):
                logger.log(step, {"loss": 0.0})
    assert len(read_run(logger.folder)[2]) == 2
