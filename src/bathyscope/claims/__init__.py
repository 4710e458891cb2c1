"""The statements of the four papers as checks with verdicts: `check`, `ledger`."""

from bathyscope.claims.check import check
from bathyscope.claims.claim import Check, Claim, Law, Measured, Numbers, Statement
from bathyscope.claims.ledger import ledger
from bathyscope.claims.registry import CLAIMS, THEMES, claim_of
from bathyscope.claims.relation import Relation, at_least, at_most, equal

__all__ = [
    "CLAIMS",
    "THEMES",
    "Check",
    "Claim",
    "Law",
    "Measured",
    "Numbers",
    "Relation",
    "Statement",
    "at_least",
    "at_most",
    "check",
    "claim_of",
    "equal",
    "ledger",
]
