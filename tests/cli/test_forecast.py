import json

from tests.support.command_line import here, run
from tests.unchecked import unchecked

__all__ = ["here"]


def test_forecast_of_a_network_by_name():
    out = run("forecast prebasic-8 --lr 0.01 --spend 8 --fail-on fails --json")
    assert out.exit_code == 0, out.output
    result = json.loads(out.stdout)
    assert result["model"] == "prebasic-8"
    assert result["verdict"] in ("trains", "lags", "fails", "undecided")
    assert result["spent"] == 8
    assert len(result["because"]) == 3
    assert result["interval"][0] <= result["loss_at_budget"] <= result["interval"][1]
    assert result["calibrated_on"]["networks"] > 0


@unchecked()
def test_forecast_of_a_network_of_ones_own(here):
    out = run("forecast mine:model --data mine:loader --lr 1e6 --fail-on fails")
    assert out.exit_code == 3, out.output
    assert out.stderr.endswith("FAILED: the forecast is that it fails\n")
    assert "fails (diverging)" in out.output
    assert "fails |●" in out.output
    assert "Calibrated on" in out.output


@unchecked()
def test_a_single_batch_is_taken_again_and_this_is_said(here):
    out = run("forecast mine:model --data mine:loader --lr 1e-4")
    assert "2 batches for" in out.output
    assert out.exit_code == 0


def test_bad_words(here):
    assert run("forecast mine:model --data mine:batch --budget 0").exit_code == 2
    assert run("forecast no-such-network").exit_code != 0
