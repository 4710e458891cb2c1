"""The progress display: a bar on a terminal, nothing elsewhere."""

import io
from collections import Counter
from types import SimpleNamespace

from bathyscope.core.progress import terminal_bar
from bathyscope.sweep import GridProgress
from bathyscope.sweep.run import Tally
from bathyscope.training.progress import ProgressBar
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
    bar.update(bar.task_ids[0], completed=7, words="two to go")
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
    monkeypatch.setattr("bathyscope.training.progress.time", clock)
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
