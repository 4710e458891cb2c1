"""One page with every figure, its preset, what was met and what was not."""

import re

from bathyscope import studies
from tests.papers.tiny import shrink


def test_the_page_shows_every_result_and_asks_for_nothing(tmp_path, monkeypatch):
    names = ("shortcut_length.figure_4", "shortcut_length.figure_7")
    shrink(monkeypatch, *names)
    results = [studies.run(name, out=tmp_path) for name in names]
    html = studies.write_gallery(tmp_path).read_text()
    for result in results:
        assert f'id="{result.study}-quick"' in html
        assert "Preset <strong>quick</strong>" in html
        for check in result.checks:
            assert check.text in html
    assert html.count("data:image/png;base64,") == 2
    assert not re.search(r'(src|href)="https?:', html)


def test_an_empty_folder_has_an_empty_page(tmp_path):
    assert "0 studies" in studies.write_gallery(tmp_path).read_text()
