"""The claims of the theme `norm_preservation`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.norm_preservation.statements import STATEMENTS

CHECKS: dict[str, Check] = {}

__all__ = ["CHECKS", "STATEMENTS"]
