"""The claims of the theme `nests`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.nests.statements import STATEMENTS

CHECKS: dict[str, Check] = {}

__all__ = ["CHECKS", "STATEMENTS"]
