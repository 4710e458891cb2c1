"""A forecast as reports show it."""

from bathyscope.foresight.record import Forecast

FORECAST = Forecast(
    verdict="fails",
    probability=0.03,
    kind="stuck",
    because=(),
    spent=8,
    budget=100,
    inside=True,
    outside=(),
    notes=(),
    calibrated_on={},
)
