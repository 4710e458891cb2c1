"""The progress display: a bar on a terminal, nothing elsewhere."""

import io
from collections import Counter
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from bathyscope import diagnose, forecast
from bathyscope.certificates import certify
from bathyscope.cli.screen import spinner
from bathyscope.core.progress import begin_stage, on_progress, report_progress, terminal_bar
from bathyscope.nets import build, resnest
from bathyscope.sweep import GridProgress
from bathyscope.sweep.run import Tally
from bathyscope.training.progress_bar import ProgressBar
from tests.unchecked import unchecked


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_of(monkeypatch):
    """A terminal in place of the error stream; not a fixture, for pytest puts its own back between."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def test_there_is_no_bar_where_output_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    assert terminal_bar("reading", total=3) is None
    with GridProgress() as progress:
        progress(Tally(total=3, skipped=0, ended=Counter()))
    assert stream.getvalue() == ""


def test_a_bar_says_how_many_are_done_and_the_words(monkeypatch):
    terminal = terminal_of(monkeypatch)
    bar = terminal_bar("reading", total=12, done=4)
    bar.update(bar.task_ids[0], completed=7, text="two to go")
    bar.stop()
    shown = terminal.getvalue()
    assert "reading" in shown
    assert "7/12" in shown
    assert "two to go" in shown


def test_bytes_are_counted_as_bytes(monkeypatch):
    terminal = terminal_of(monkeypatch)
    bar = terminal_bar("fetching", total=None, of_bytes=True)
    bar.update(bar.task_ids[0], completed=1_500_000, total=3_000_000, refresh=True)
    bar.stop()
    assert "1.5/3.0 MB" in terminal.getvalue()


def test_a_sweep_shows_how_its_runs_ended(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with GridProgress() as progress:
        progress(Tally(total=3, skipped=1, ended=Counter({"diverged": 1})))
    assert "2/3" in terminal.getvalue()
    assert "1 diverged, 1 before" in terminal.getvalue()


@unchecked()
def test_training_shows_its_numbers_after_two_seconds_and_not_before(monkeypatch):
    terminal = terminal_of(monkeypatch)
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=10.0)
    monkeypatch.setattr("bathyscope.training.progress_bar.time", clock)
    loop, record = SimpleNamespace(step=5, num_steps=9), {"loss": 0.25, "accuracy": 0.5}
    bar = ProgressBar("mine")
    bar.on_start(loop)
    clock.now = 11.9
    bar.on_step(loop, record)
    assert terminal.getvalue() == ""
    clock.now = 12.1
    bar.on_step(loop, record)
    bar.on_end(loop, "finished")
    assert "5/9" in terminal.getvalue()
    assert "loss 0.2500 acc 0.500" in terminal.getvalue()


def heard(act):
    result = []
    with on_progress(result.append):
        act()
    return result


def small_case():
    model = build("prebasic-8", in_channels=1, width=2, seed=0)
    return model, (torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 3]))


def test_a_standard_diagnosis_tells_every_block_forwards_and_back():
    model, batch = small_case()
    result = heard(lambda: diagnose(model, batch))
    blocks = diagnose(model, batch).blocks
    number = len(blocks) + len(blocks.around)  # the stem and the head are measured like blocks
    assert result == [
        "every block measured",  # the only stage: what is left fits into 80 columns without it
        *(f"forward through block {i} of {number}" for i in range(1, number + 1)),
        *(f"back through block {i} of {number}" for i in range(1, number + 1)),
    ]


def test_a_full_diagnosis_tells_its_four_stages_and_the_steps_on_a_copy():
    model, batch = small_case()
    result = heard(lambda: diagnose(model, batch, probes="full", steps=2))
    stages = [text for text in result if ":" not in text]
    assert [text.split(",")[0] for text in stages] == [f"{i} of 4" for i in range(1, 5)]
    assert "4 of 4, training steps on a copy: step 2 of 2" in result
    assert any("each block left out: without block 3 of" in text for text in result)


def test_a_forecast_tells_its_steps():
    model, batch = small_case()
    result = heard(lambda: forecast(model, [batch], loss=F.cross_entropy, budget=20, spend=1))
    assert "step 1 of 1" in result


def test_a_certificate_tells_the_features_that_are_done():
    network = resnest(6, 1, width=20, feature_sizes=[4, 4, 4])
    x = torch.randn(80, 6, generator=torch.Generator().manual_seed(0))
    result = heard(lambda: certify(network, (x, x.sum(dim=1, keepdim=True))))
    features = [text for text in result if "feature" in text]
    assert features == [
        f"best predictor after feature {i} of {len(features)}" for i in range(1, len(features) + 1)
    ]
    assert len(features) >= 3


def test_nobody_is_told_outside():
    result = []
    with on_progress(result.append):
        pass
    begin_stage("late", 1, 2)
    report_progress("step", 1, 2)
    assert result == []


def test_the_spinner_shows_what_is_told_deep_below(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with spinner("certifying mine"):
        report_progress("feature", 3, 20)
    assert "certifying mine: feature 3 of 20" in terminal.getvalue()
