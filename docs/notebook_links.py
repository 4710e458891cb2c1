"""Links of notebooks to pages: mkdocs turns those of Markdown into addresses of the site, not these."""

import re
from typing import Any

_LINK = re.compile(r'href="\.\./([\w/-]+)\.md(#[\w-]+)?"')


def on_page_content(html: str, page: Any, files: Any, **_: object) -> str:
    """The page of a notebook with its links to `../NAME.md` leading to that page of the site.

    Raises:
        ValueError: there is no such page.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        return html

    def address(result: re.Match[str]) -> str:
        if files.get_file_from_path(f"{result[1]}.md") is None:
            raise ValueError(f"{page.file.src_uri} links to {result[1]}.md, which is not a page.")
        return f'href="../../{result[1]}/{result[2] or ""}"'

    return _LINK.sub(address, html)
