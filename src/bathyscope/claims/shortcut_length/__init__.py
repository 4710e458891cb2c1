"""The claims of the theme `shortcut_length`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.shortcut_length.statements import STATEMENTS

CHECKS: dict[str, Check] = {}

__all__ = ["CHECKS", "STATEMENTS"]
