"""What several measurements have in common: conditioning, rank and non-finite numbers."""

from dataclasses import replace

from bathyscope.core.quantity import Quantity


def non_finite(measurement: str) -> Quantity:
    """Fraction of the numbers that are NaN or Inf."""
    return Quantity(
        key=f"{measurement}.non_finite",
        label=f"non-finite {measurement}",
        what="Fraction of the numbers that are NaN or Inf.",
        good="0.",
        why="One such number spoils every number that is computed from it.",
        scale="fraction",
        direction="high",
        anchors=(0.0, 0.01),
    )


def condition_number(key: str, label: str) -> Quantity:
    """Largest over smallest singular value."""
    return Quantity(
        key=key,
        label=label,
        what="Largest over smallest singular value; infinite where a direction is lost, which over "
        "channels and features per block that widens brings about by itself.",
        good="Below about 1e3. Above 1e7, float32 keeps nothing of the smallest direction.",
        why="What is squeezed this much hardly reaches the loss, and is learned as slowly.",
        scale="log",
        direction="high",
        anchors=(1e3, 1e8),
    )


def spectrum(measurement: str, *, of: str = "", mode: str = "") -> tuple[Quantity, ...]:
    """Conditioning and rank of a matrix of samples × everything else, or by one of its axes."""
    end, axis = (f"_{mode}", f" ({mode})") if mode else ("", "")
    condition = condition_number(f"{measurement}.condition{end}", f"{of}condition number{axis}")
    effective = replace(
        condition,
        key=f"{measurement}.effective_condition{end}",
        label=f"effective {of}condition number{axis}",
        what="Largest over smallest singular value among those above the tolerance.",
    )
    rank = Quantity(
        key=f"{measurement}.rank{end}",
        label=f"{of}rank{axis}",
        what="Number of singular values above the tolerance.",
        good="Close to the full rank.",
        why="A low rank means that samples or features have become alike.",
        scale="linear",
    )
    full = Quantity(
        key=f"{measurement}.full_rank{end}",
        label=f"full {of}rank{axis}",
        what="The largest that the rank could be.",
        scale="linear",
        role="setting",
    )
    tolerance = Quantity(
        key=f"{measurement}.tolerance{end}",
        label=f"{of}tolerance{axis}",
        what="Singular values below this fraction of the largest count as zero.",
        role="setting",
    )
    return condition, effective, rank, full, stable_rank(measurement, of=of, mode=mode), tolerance


def stable_rank(measurement: str, *, of: str = "", mode: str = "") -> Quantity:
    """Sum of squared singular values over the largest of them."""
    end, axis = (f"_{mode}", f" ({mode})") if mode else ("", "")
    return Quantity(
        key=f"{measurement}.stable_rank{end}",
        label=f"{of}stable rank{axis}",
        what="Sum of the squared singular values over the largest: how many directions carry weight.",
        good="Well above 1.",
        why="At 1 a single direction carries everything.",
        scale="log",
        direction="low",
        anchors=(1.5, 1.0),
    )


def rank_fraction(measurement: str, label: str) -> Quantity:
    """Numerical rank over the full rank."""
    return Quantity(
        key=f"{measurement}.rank_fraction",
        label=label,
        reducer="smallest over layers",
        what="Numerical rank as a fraction of the full rank.",
        good="Close to 1.",
        why="A low rank means that some directions are never reached.",
        scale="fraction",
        direction="low",
        anchors=(0.5, 0.02),
    )
