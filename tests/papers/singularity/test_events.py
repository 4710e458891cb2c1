"""The order of events is read off the records of a run."""

import math

import pandas as pd

from bathyscope.papers.singularity.studies.events import first_events


def records(step, *, cosine=0.5, condition=10.0, gradient=1.0, weight=1.0):
    """Two blocks at one step; the first one has what is given, the last one is ordinary."""
    ordinary = {
        "representations_mean_cosine": 0.5,
        "representations_condition_samples": 10.0,
        "gradients_norm_in": 1.0,
        "gradients_norm_out": 1.0,
        "weights_min": -1.0,
        "weights_max": 1.0,
    }
    first = ordinary | {
        "representations_mean_cosine": cosine,
        "representations_condition_samples": condition,
        "gradients_norm_in": gradient,
        "weights_max": weight,
    }
    return [
        {"step": step, "index": index, "block": f"blocks.{index}"} | row
        for index, row in enumerate((first, ordinary))
    ]


def test_each_event_at_its_first_step_and_block():
    frame = pd.DataFrame(
        records(0, gradient=1e4)
        + records(1, gradient=1e4, weight=1e3)
        + records(2, weight=1e3, condition=math.inf)
        + records(4, cosine=0.999, condition=math.inf)
    )
    result = first_events(frame, ending={"status": "diverged", "step": 5, "diverged_block": "b"})
    assert result == {
        "gradient_explosion": (0.0, "blocks.0"),
        "weight_explosion": (1.0, "blocks.0"),
        "collapse": (4.0, "blocks.0"),
        "singularity": (2.0, "blocks.0"),
        "divergence": (5.0, "b"),
    }


def test_a_quiet_run_shows_none():
    frame = pd.DataFrame(records(0) + records(1))
    result = first_events(frame, ending={"status": "finished", "step": 1})
    assert all(math.isnan(step) and block is None for step, block in result.values())
