import dataclasses
import math

from bathyscope.core.records import Measurement
from bathyscope.report.series import columns_of, main_keys, series_of
from tests.report.specimens import clean


def test_blocks_that_were_not_measured_are_gaps():
    report = clean(6)
    some = Measurement(
        name="weights",
        blocks=report.blocks[::-2],
        columns={"spectral_norm": (5, math.nan, 1.0), "flag": (True, None, False)},
    )
    report = dataclasses.replace(report, measurements=(some,))
    values = series_of(report)["weights.spectral_norm"].values
    assert values[0] is None
    assert values[1] == 1.0
    assert math.isnan(values[3])
    assert values[5] == 5.0
    assert columns_of(report)["weights.flag"] == (None, False, None, None, None, True)
    assert "weights.flag" not in series_of(report)


def test_main_quantities_in_their_order_and_all_where_none_is_known():
    report = clean(6)
    keys = main_keys(report)
    assert keys == [key for key in series_of(report) if key in keys]
    assert "gradients.ratio_from_loss" in keys
    assert "representations.cutoff_samples" not in keys
    mine = Measurement(
        name="mine", blocks=report.blocks, columns={"x": (1.0,) * 6, "cutoff": (0.1,) * 6}
    )
    assert main_keys(dataclasses.replace(report, measurements=(mine,))) == ["mine.x"]
