import io
import json

import pytest
from rich.console import Console
from rich.table import Table

from bathyscope.core.terminal import guarded, printable, printable_json

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u202eevil\x1b]52;c;aGk=\x1b\\"


def test_escape_sequences_are_written_out():
    shown = printable(HOSTILE + "\n\tend")
    assert shown.endswith("evil\\x1b]52;c;aGk=\\x1b\\\n\tend")
    assert shown.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize("text", ["ß → ∇ 深い", "a\nb\tc", ""])
def test_other_text_stays(text):
    assert printable(text) == text


def test_json_means_the_same():
    text = json.dumps({"name": HOSTILE}, ensure_ascii=False)
    assert printable_json(text).isprintable()
    assert json.loads(printable_json(text)) == {"name": HOSTILE}


def test_a_guarded_console_shows_what_others_wrote_and_keeps_its_own_colors():
    written = io.StringIO()
    console = guarded(
        Console(file=written, force_terminal=True, width=200, markup=False, emoji=False)
    )
    table = Table("name")
    table.add_row(HOSTILE)
    table.add_row("[/red] [bold] :warning:")
    console.print(table, style="bold")
    assert "\x1b[1m" in written.getvalue()
    assert "\x1b]" not in written.getvalue()
    assert "\x1b[2J" not in written.getvalue()
    assert "[/red] [bold] :warning:" in written.getvalue()


def test_a_console_is_guarded_once():
    console = guarded()
    assert len(guarded(console)._render_hooks) == 1
