"""Statements of the theme `nests` that assert nothing measurable."""

from bathyscope.claims.claim import Claim

REMARK_1 = Claim(
    name="nests.remark_1",
    statement="Every local minimum of the whole problem is one of the problem with fixed "
    "features, so that what is true of all of the latter is true of the former.",
    tested="A remark on sets: it follows from the definition of a local minimum, and there "
    "is nothing to measure.",
)
