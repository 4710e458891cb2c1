"""Which depths a family has, and which are nearest to one it has not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Depths per · n + plus, for n = 1, 2, ….

    Examples:
        >>> rule = Arithmetic(6, 2)
        >>> rule.formula, rule.argument(56), rule.nearest(57)
        ('6n + 2', 9, (56, 62))
    """

    per: int
    plus: int = 0

    @property
    def formula(self) -> str:
        """The rule in words."""
        multiple = "n" if self.per == 1 else f"{self.per}n"
        return f"{multiple} + {self.plus}" if self.plus else multiple

    def argument(self, depth: int) -> int | None:
        """n for a depth, what the builder is given; `None` if there is no such depth."""
        n, rest = divmod(depth - self.plus, self.per)
        return n if rest == 0 and n >= 1 else None

    def nearest(self, depth: int) -> tuple[int, ...]:
        """The depths below and above one that does not exist."""
        n = (depth - self.plus) // self.per
        return tuple(self.per * m + self.plus for m in (n, n + 1) if m >= 1) or (
            self.per + self.plus,
        )


@dataclass(frozen=True, slots=True)
class OneOf:
    """A few depths, each built in its own way.

    Examples:
        >>> OneOf((18, 34, 50)).nearest(51)
        (50,)
    """

    depths: tuple[int, ...]

    @property
    def formula(self) -> str:
        """The depths, listed."""
        return ", ".join(map(str, self.depths[:-1])) + f" or {self.depths[-1]}"

    def argument(self, depth: int) -> int | None:
        """The depth itself."""
        return depth if depth in self.depths else None

    def nearest(self, depth: int) -> tuple[int, ...]:
        """The depths below and above one that does not exist."""
        below = [d for d in self.depths if d < depth][-1:]
        above = [d for d in self.depths if d > depth][:1]
        return (*below, *above)


Depths = Arithmetic | OneOf
