"""Configurations: strict to read, and named by what they resolve to."""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bathyscope.core.arguments import check_path
from bathyscope.core.errors import UsageError, nearest
from bathyscope.core.json_values import JsonMapping

_HASH_DIGITS = 10  # 40 bits: one chance in 20,000 of a clash among ten thousand runs

# Not `Self`: the type checker used under test cannot take it outside a class.
C = TypeVar("C", bound="Configuration")


class Configuration(BaseModel):
    """Everything that decides a result, and nothing else; unknown keys are refused.

    Examples:
        >>> class Walk(Configuration):
        ...     steps: int = 10
        >>> Walk.parse({"step": 3})
        Traceback (most recent call last):
        bathyscope.core.errors.UsageError: The configuration has no key 'step'; the nearest: steps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @classmethod
    def parse(
        cls: type[C], values: Mapping[str, object], *, source: str = "The configuration"
    ) -> C:
        """The configuration with these values.

        Raises:
            UsageError: a key is unknown (the nearest are named) or a value is of the wrong type.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise UsageError(_sentence(error, source=source, keys=cls.model_fields)) from None

    def prefix(self) -> str:
        """The readable part of the run folder's name."""
        return type(self).__name__

    def resolved(self) -> dict[str, object]:
        """Every key with its value, defaults included, as JSON can hold it."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Ten hexadecimal digits of the SHA-256 of the resolved configuration, keys sorted."""
        text = json.dumps(self.resolved(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]

    def folder_name(self) -> str:
        """The readable prefix and the digest: what a run of this configuration is called on disk."""
        readable = re.sub(r"[^A-Za-z0-9._+-]+", "-", self.prefix()).strip("-.")[:80]
        return f"{readable}-{self.digest()}"


def read_toml(path: Path | str) -> dict[str, object]:
    """The contents of a TOML file.

    Raises:
        UsageError: there is no such file, or it is not TOML (the line is named).
    """
    path = check_path("path", path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The file {path} cannot be read: {reason}.") from None
    except RecursionError:
        raise UsageError(f"The file {path} is nested beyond reason; do not trust it.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The file {path} is not valid TOML: {error}.") from None


def _sentence(error: ValidationError, *, source: str, keys: JsonMapping) -> str:
    problems = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            close = nearest(key, keys)
            hint = f"the nearest: {', '.join(close)}" if close else f"known are {', '.join(keys)}"
            problems.append(f"{source} has no key {key!r}; {hint}.")
        elif item["type"] == "missing":
            problems.append(f"{source} lacks the key {key!r}; give it.")
        else:
            what = f"key {key!r} is {item['input']!r}" if key else "values do not fit together"
            problems.append(f"{source}: {what}; {_lower_first(item['msg'])}.")
    return " ".join(problems)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
