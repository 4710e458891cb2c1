"""What can go wrong in a deep network, and when and where each of it is first seen in a run."""

import numpy as np
import pandas as pd

from bathyscope.core.json_values import JsonMapping

EVENTS: dict[str, str] = {
    "gradient_explosion": "gradient explosion",
    "weight_explosion": "weight explosion",
    "collapse": "collapse",
    "singularity": "singularity",
    "divergence": "divergence",
}
GRADIENT_GROWTH = 1e3
"""‖∂E/∂x‖ at some block over that at the network's end, from which on gradients explode."""
WEIGHT_GROWTH = 100.0
"""Largest |w| of a block over that at its start, from which on weights explode."""
ALIKE = 0.99
"""Mean cosine between the samples of a block's output, from which on it has collapsed."""

MEANING = (
    f"Gradients explode where their norm is {GRADIENT_GROWTH:g} times that at the network's end, "
    f"weights where the largest is {WEIGHT_GROWTH:g} times what it was; a representation has "
    f"collapsed where the mean cosine between samples is above {ALIKE:g}, and is singular where "
    "the matrix of features × samples has an infinite condition number; a run diverges where its "
    "loss or a gradient is no longer a finite number. Measured after 0, 1, 2, 4, … steps."
)


def first_events(
    frame: pd.DataFrame, *, ending: JsonMapping
) -> dict[str, tuple[float, str | None]]:
    """Where and when each event is first seen in the records of a run.

    Args:
        frame: one row a measured step and block, as the watch `events` writes it.
        ending: `status` of the run, and its last `step`.

    Returns:
        Step (NaN where never) and block. Of the blocks that show it at that step, the one the
        signal reaches first: for gradients the last of the network, for the others the first.
    """
    seen: dict[str, tuple[float, str | None]] = {event: (float("nan"), None) for event in EVENTS}
    begin = frame[frame["step"] == frame["step"].min()].set_index("index")
    start_size = _largest_weight(begin)
    for _, now in frame.groupby("step"):
        now = now.set_index("index").sort_index()
        flags = {
            "gradient_explosion": _gradients_explode(now),
            "weight_explosion": _largest_weight(now) > WEIGHT_GROWTH * start_size,
            "collapse": now["representations_mean_cosine"].astype(float) > ALIKE,
            "singularity": _singular(now),
        }
        for event, shown in flags.items():
            where = np.flatnonzero(shown.to_numpy(dtype=bool))
            if np.isnan(seen[event][0]) and len(where):
                location = where[-1] if event == "gradient_explosion" else where[0]
                seen[event] = (float(now["step"].iloc[0]), str(now["block"].iloc[location]))
    if ending["status"] == "diverged":
        seen["divergence"] = (float(ending["step"]), ending.get("diverged_block"))
    return seen


def _largest_weight(frame: pd.DataFrame) -> pd.Series:
    both = frame[["weights_min", "weights_max"]].astype(float).abs()
    return both.max(axis=1)


def _gradients_explode(frame: pd.DataFrame) -> pd.Series:
    at_end = float(frame["gradients_norm_out"].astype(float).iloc[-1])
    return frame["gradients_norm_in"].astype(float) > GRADIENT_GROWTH * at_end


def _singular(frame: pd.DataFrame) -> pd.Series:
    """In the mode of samples, the matrix of the theory; a dead channel alone does not count."""
    return np.isinf(frame["representations_condition_samples"].astype(float))
