"""Every column that a measurement gives, as one `Quantity` each: what it is, what is good, why.

A family has a file: what a forward pass shows, what a backward pass shows, weights and their steps,
and what only transformers have.
"""

from bathyscope.core.quantity import Quantity
from bathyscope.measure.quantities.backward import BACKWARD
from bathyscope.measure.quantities.forward import FORWARD
from bathyscope.measure.quantities.learning import LEARNING
from bathyscope.measure.quantities.transformer import TRANSFORMER

QUANTITIES: dict[str, Quantity] = {
    quantity.key: quantity for quantity in (*FORWARD, *BACKWARD, *LEARNING, *TRANSFORMER)
}


def quantity_of(key: str) -> Quantity:
    """The quantity `measurement.column`; one of your own is shown under its name, without a bad side.

    Examples:
        >>> quantity_of("gradients.ratio").label
        'gradient norm ratio'
        >>> quantity_of("representations.condition_samples").label
        'condition number (samples)'
        >>> quantity_of("mine.special_norm").label
        'mine special norm'
    """
    return QUANTITIES.get(key) or Quantity(
        key=key, label=key.replace("_", " ").replace(".", " ") or "unnamed"
    )


__all__ = ["QUANTITIES", "Quantity", "quantity_of"]
