"""The networks that the figures compare, at equal depth: this many weight matrices of d × d."""

from dataclasses import dataclass

from bathyscope import nets
from bathyscope.nets import Network


@dataclass(frozen=True, slots=True)
class Kind:
    """A network at every depth.

    Attributes:
        label: in figures.
        length: n, layers under a shortcut; of a plain network 2, so that activations at mid stand
            at the same places as in a 2-shortcut network (appendix B).
        shortcut: whether there are shortcuts.
        init: the initialization scheme.
    """

    label: str
    length: int
    shortcut: bool
    init: str

    def build(self, depth: int, *, width: int = 10, relu: bool = False) -> Network:
        """The network with this many weight matrices, in float64, drawn from torch's generator."""
        model = nets.build(
            f"nshortcut-{depth // self.length}-{self.length}",
            width=width,
            init=self.init,
            mid="relu" if relu else "identity",
            shortcut="identity" if self.shortcut else "none",
        )
        assert isinstance(model, Network)
        return model.double()


KINDS: dict[str, Kind] = {
    "shortcut_2": Kind("2-shortcut, small start", 2, True, "small"),
    "shortcut_1": Kind("1-shortcut, small start", 1, True, "small"),
    "xavier": Kind("no shortcut, Xavier", 2, False, "xavier"),
    "orthogonal": Kind("no shortcut, orthogonal", 2, False, "orthogonal"),
}
