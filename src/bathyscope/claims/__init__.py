"""The statements of papers as checks with verdicts: `check`, `ledger`."""

from bathyscope.claims.check import check
from bathyscope.claims.claim import Claim, Law, Measured, Numbers
from bathyscope.claims.ledger import ledger
from bathyscope.claims.registry import all_claims, claim_of, themes
from bathyscope.claims.relation import Relation, at_least, at_most, equal

__all__ = [
    "Claim",
    "Law",
    "Measured",
    "Numbers",
    "Relation",
    "all_claims",
    "at_least",
    "at_most",
    "check",
    "claim_of",
    "equal",
    "ledger",
    "themes",
]
