"""A made-up table of trainings, as the forecast is fitted on."""

import numpy as np

from bathyscope.foresight.readings import STAGES
from tools.forecast_table.fit import LATER, START


def rows(count=120, *, seed=0):
    """A made-up table: what trains has a higher `score` and `alignment`, the rest is noise."""
    draw = np.random.default_rng(seed)
    result = []
    for number in range(count):
        good = draw.random() < 0.5
        features = {}
        for step in STAGES:
            names = START if step == 1 else LATER
            values = dict(zip(names, draw.normal(size=len(names)).round(3).tolist(), strict=True))
            if step > 1:
                values["score"] += 3.0 * good
                values["alignment"] += 2.0 * good
            features[str(step)] = values | {"depth": abs(values["depth"])}
        end = 0.95 if good else 0.1
        result.append(
            {
                "number": number,
                "draw": {
                    "family": "abcd"[number % 4],
                    "task": "xyz"[number % 3],
                    "optimizer": ("sgd", "adam")[number % 2],
                },
                "scores": [[end] * 3, [end] * 3],
                "features": features,
            }
        )
    return result
