"""The claims of the theme `singularity`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.singularity.statements import STATEMENTS

CHECKS: dict[str, Check] = {}

__all__ = ["CHECKS", "STATEMENTS"]
