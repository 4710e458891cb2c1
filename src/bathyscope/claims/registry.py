"""Every numbered statement of the four papers, by name."""

from collections.abc import Mapping

from bathyscope.claims import nests, norm_preservation, shortcut_length, singularity
from bathyscope.claims.claim import Check, Claim, Statement, Theme
from bathyscope.core.errors import UnknownName


def _theme(
    theme: Theme, statements: Mapping[str, Statement], checks: Mapping[str, Check]
) -> dict[str, Claim]:
    assert set(checks) <= set(statements), "a check without a statement"
    return {
        f"{theme}.{key}": Claim(
            name=f"{theme}.{key}",
            theme=theme,
            number=key.replace("_", " "),
            statement=statement,
            check=checks.get(key),
        )
        for key, statement in statements.items()
    }


CLAIMS: dict[str, Claim] = {
    **_theme("singularity", singularity.STATEMENTS, singularity.CHECKS),
    **_theme("shortcut_length", shortcut_length.STATEMENTS, shortcut_length.CHECKS),
    **_theme("nests", nests.STATEMENTS, nests.CHECKS),
    **_theme("norm_preservation", norm_preservation.STATEMENTS, norm_preservation.CHECKS),
}
THEMES: tuple[Theme, ...] = ("singularity", "shortcut_length", "nests", "norm_preservation")


def claim_of(name: str) -> Claim:
    """The claim of that name.

    Raises:
        UnknownName: there is none; the nearest are named.

    Examples:
        >>> claim_of("nests.theorem_1").number
        'theorem 1'
    """
    if name not in CLAIMS:
        hint = "`bathyscope check list` names them all."
        raise UnknownName("claim", name, [*CLAIMS, *THEMES], hint=hint)
    return CLAIMS[name]
