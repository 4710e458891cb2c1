"""The ledger: every claim, whether it is coded, and the verdicts where they are given."""

from collections.abc import Iterable

import pandas as pd

from bathyscope.claims.registry import all_claims
from bathyscope.core.records import ClaimCheck


def ledger(checks: Iterable[ClaimCheck] = ()) -> pd.DataFrame:
    """A row for every numbered statement of the papers, indexed by name.

    Columns: theme, number, status ("coded", "nothing to test"), statement,
    assumptions, tested, definition, links; and, where checks are given, verdict,
    extra_assumption, corrected and vacuous, empty for claims that were not checked.

    Examples:
        >>> table = ledger()
        >>> table.loc["nests.theorem_1", "status"]
        'coded'
    """
    claims = all_claims()
    table = pd.DataFrame(
        {
            "theme": claim.theme,
            "number": claim.number,
            "status": claim.status,
            "statement": claim.statement,
            "assumptions": "; ".join(claim.assumptions),
            "tested": claim.tested,
            "definition": claim.definition,
            "links": ", ".join(link.to for link in claim.links),
        }
        for claim in claims.values()
    ).set_index(pd.Index(claims, name="claim"))
    result = {record.claim: record for record in checks}
    if result:
        rows = [result.get(name) for name in claims]
        table["verdict"] = [row.verdict.value if row else "" for row in rows]
        table["extra_assumption"] = [(row and row.extra_assumption) or "" for row in rows]
        table["corrected"] = [(row and row.corrected) or "" for row in rows]
        table["vacuous"] = [row.vacuous if row else "" for row in rows]
    return table
