"""The ledger: every claim, whether it is coded, and the verdicts where they are given."""

from collections.abc import Iterable

import pandas as pd

from bathyscope.claims.registry import CLAIMS
from bathyscope.core.records import ClaimCheck


def ledger(checks: Iterable[ClaimCheck] = ()) -> pd.DataFrame:
    """One row a numbered statement of the four papers, coded or not, indexed by name.

    Columns: theme, number, status ("coded", "not coded yet", "nothing to test"), statement,
    assumptions, tested; and, where checks are given, verdict, extra_assumption and corrected,
    empty for claims that were not checked.

    Examples:
        >>> table = ledger()
        >>> table.loc["nests.theorem_1", "status"]
        'coded'
    """
    table = pd.DataFrame(
        {
            "theme": claim.theme,
            "number": claim.number,
            "status": claim.status,
            "statement": claim.statement.statement,
            "assumptions": "; ".join(claim.statement.assumptions),
            "tested": claim.statement.tested,
        }
        for claim in CLAIMS.values()
    ).set_index(pd.Index(CLAIMS, name="claim"))
    found = {record.claim: record for record in checks}
    if found:
        rows = [found.get(name) for name in CLAIMS]
        table["verdict"] = [row.verdict.value if row else "" for row in rows]
        table["extra_assumption"] = [(row and row.extra_assumption) or "" for row in rows]
        table["corrected"] = [(row and row.corrected) or "" for row in rows]
    return table
