"""A whole HTML document from a template: style and script inside, everything escaped, nothing fetched."""

import hashlib
from base64 import b64encode
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from bathyscope.report.palette import style_sheet


def render(template: str, *, title: str, **values: object) -> str:
    """A whole document of a template, with style and script inside."""
    script = _asset("page.js")
    return (
        environment()
        .get_template(template)
        .render(
            title=title,
            style=style_sheet() + _asset("page.css"),
            script=script,
            policy=_policy(script),
            docs=_docs(),
            **values,
        )
    )


def _policy(script: str) -> str:
    """The browser itself then refuses every request and every other script."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _docs() -> str:
    """Where the documentation stands, as the package's own metadata name it; empty where they do not."""
    try:
        urls: list[str] = metadata("bathyscope").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = {url.partition(", ")[0]: url.partition(", ")[2] for url in urls}
    return named.get("Documentation", "").rstrip("/")


@cache
def environment() -> Environment:
    """The templates, with everything escaped."""
    environment = Environment(
        loader=PackageLoader("bathyscope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


@cache
def _asset(name: str) -> str:
    return files("bathyscope.report").joinpath("assets", name).read_text(encoding="utf-8")
