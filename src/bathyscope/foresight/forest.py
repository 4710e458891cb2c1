"""Averages of decision trees as plain arrays: what they say of one row, and which features said it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

_PARTS = ("feature", "threshold", "left", "right", "value", "roots")


@dataclass(frozen=True, slots=True)
class Forest:
    """Decision trees, their nodes in a row.

    Attributes:
        feature: of each node, the feature it asks; −1 at a leaf.
        threshold: a value of at most this goes left.
        left, right: the next nodes.
        value: mean of the rows that reached a node in the fit, one number an answer.
        roots: the first node of each tree.
    """

    feature: Int[ndarray, " n"]
    threshold: Float[ndarray, " n"]
    left: Int[ndarray, " n"]
    right: Int[ndarray, " n"]
    value: Float[ndarray, "n k"]
    roots: Int[ndarray, " t"]

    def predict(self, row: Float[ndarray, " d"]) -> Float[ndarray, " k"]:
        """Mean over the trees of the value at the leaf that a row reaches."""
        node = self.roots.astype(np.int64)
        while (inner := self.feature[node] >= 0).any():
            goes_left = row[self.feature[node]] <= self.threshold[node]
            node = np.where(inner, np.where(goes_left, self.left[node], self.right[node]), node)
        result: Float[ndarray, " k"] = self.value[node].mean(0).astype(np.float64)
        return result

    def contributions(self, row: Float[ndarray, " d"], answer: int) -> Float[ndarray, " d"]:
        """How much each feature moved an answer away from its mean, over the paths of all trees.

        They sum to the prediction less the mean of the roots.
        """
        result = np.zeros(len(row))
        node = self.roots.astype(np.int64)
        while (inner := self.feature[node] >= 0).any():
            asked = self.feature[node]
            goes_left = row[asked] <= self.threshold[node]
            following = np.where(
                inner, np.where(goes_left, self.left[node], self.right[node]), node
            )
            moved = (self.value[following] - self.value[node])[:, answer].astype(np.float64)
            np.add.at(result, asked[inner], moved[inner])
            node = following
        return result / len(self.roots)

    def arrays(self, name: str) -> dict[str, ndarray]:
        """Its arrays under names, to be saved."""
        return {f"{name}/{part}": getattr(self, part) for part in _PARTS}

    @classmethod
    def of_arrays(cls, name: str, arrays: Mapping[str, ndarray]) -> "Forest":
        """The forest of saved arrays."""
        return cls(*(arrays[f"{name}/{part}"] for part in _PARTS))
