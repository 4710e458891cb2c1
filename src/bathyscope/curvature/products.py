"""A curvature matrix as an operator: exact products with blocks of vectors, never the matrix itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from bathyscope.core.batch import Batch
from bathyscope.core.devices import available_bytes, readable_size
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.processes import describe_lost_peer
from bathyscope.curvature.convolutions import matmul_convolutions
from bathyscope.curvature.differences import has_custom_function, is_slope_of_gradient
from bathyscope.curvature.fingerprint import Fingerprint, fingerprint
from bathyscope.curvature.memory import graph_nodes, held_bytes
from bathyscope.curvature.objective import Objective
from bathyscope.curvature.symmetry import are_symmetric, is_symmetric
from bathyscope.curvature.terms import HessianTerm, Term
from bathyscope.curvature.weight_norm import plain_weight_norm

MakeTerm = Callable[[Objective, Batch, Sequence[Tensor]], Term]

# A kept graph may take this fraction of the free memory; a product needs about as much again.
_KEPT_FRACTION = 0.4
# Vectors multiplied at once: beyond this the gain is small (measured on MLPs and residual networks).
_MOST_AT_ONCE = 64
# Only products with a graph this small are faster for many vectors together: there the time goes into
# calling operations, not into computing (measured: 0.24 against 2.1 ms per vector on a graph of 80 kB,
# as much on one of 1 MB, 1.3 to 1.8 times as long on one of 10 MB).
_TOGETHER_BYTES = 2**19


class _FusedAttention(Exception):
    """The graph holds an attention kernel without a second derivative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPlan:
    """How products are made, and what they take. Bytes are what the graphs hold; `peak_bytes` adds
    the work space, which is about the graph again for each vector multiplied `together`."""

    kept: bool
    together: bool
    graph_bytes: int
    available_bytes: int
    at_once: int
    peak_bytes: int

    def __str__(self) -> str:
        how = "kept graph" if self.kept else "graph recomputed for every product"
        vectors = (
            f"up to {self.at_once} vectors at once" if self.together else "one vector at a time"
        )
        return (
            f"{how} ({readable_size(self.graph_bytes)}), {vectors}, "
            f"peak about {readable_size(self.peak_bytes)} of {readable_size(self.available_bytes)} free"
        )


class CurvatureOperator:
    """H or G of an objective, as a symmetric operator on the flattened parameters.

    The matrix is always that of the model and the data as they stand: when parameters, buffers or
    data have changed since the last question, the graph is made again and `generation` counts it.
    Frozen and unused parameters have zero rows. Of a model that a group of processes holds together
    every process multiplies with its own data and the results are summed with the number of samples as
    weights; a plain module is this process's own.

    Args:
        objective: what is differentiated.
        make_term: from a batch to the term of one kind of curvature.
        budget: bytes that a kept graph may take; None asks the machine.
    """

    def __init__(
        self, objective: Objective, make_term: MakeTerm, *, budget: int | None = None
    ) -> None:
        self.objective, self.make_term, self.budget = objective, make_term, budget
        self.names = tuple(objective.parameters)
        self.parameters = tuple(objective.parameters.values())
        sizes = [p.numel() for p in self.parameters]
        self.offsets = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.dtype = torch.promote_types(self.parameters[0].dtype, torch.float32)
        self.device = self.parameters[0].device
        self.rounding = max(torch.finfo(p.dtype).eps for p in self.parameters)
        self.num_products = 0
        self.on_product: Callable[[int], None] = lambda _: None
        self.generation = 0
        self._active: list[int] = []
        self._terms: list[tuple[int, Term]] | None = None
        self._plan: ProductPlan | None = None
        self._state: Fingerprint = ()
        self._open = False
        self._symmetric = False
        self._differentiated = False
        self._total = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d) with d the number of parameters."""
        return self.offsets[-1], self.offsets[-1]

    @property
    def plan(self) -> ProductPlan:
        """How products are made; decided from the first batch's graph."""
        with self.session():  # makes the plan, or finds that it still holds
            pass
        assert self._plan is not None
        return self._plan

    def slices_of(self, positions: Sequence[int]) -> list[slice]:
        """Where some parameters lie in the flat vector."""
        return [slice(self.offsets[i], self.offsets[i + 1]) for i in positions]

    def __matmul__(self, block: Float[Tensor, " d b"]) -> Float[Tensor, " d b"]:
        return self.times(block, range(len(self.parameters)))

    def times(
        self, block: Float[Tensor, " m b"], positions: Sequence[int]
    ) -> Float[Tensor, " m b"]:
        """The diagonal block of some parameters times b vectors of their length."""
        with self.session():
            assert self._plan is not None, "a session makes the plan"
            at_once = self._plan.at_once
            if block.shape[1] <= at_once:
                return self._times(block, positions)
            parts = block.split(at_once, dim=1)
            return torch.cat([self._times(part, positions) for part in parts], dim=1)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Many products in one go: the model is set up once and put back at the end."""
        if self._open:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(self.objective.at_rest())
            self._open = True
            stack.callback(setattr, self, "_open", False)
            try:
                self._prepare()
            except _FusedAttention:
                stack.enter_context(self.objective.with_math_attention())
                self._prepare()
            yield

    def free(self) -> None:
        """Let go of the kept graph; the next product makes it again."""
        self._terms, self._plan, self._state = None, None, ()

    def _prepare(self) -> None:
        self._check_parameters()
        state = fingerprint(self.objective, self.parameters)
        stale = self._plan is None or state != self._state
        # what one process makes again all do: it takes messages between them
        if not bool(self._reduce(torch.tensor(int(stale), device=self.device))):
            return
        self.free()
        self.generation += 1
        self._active = [i for i, p in enumerate(self.parameters) if p.requires_grad]
        active = [self.parameters[i] for i in self._active]
        terms: list[tuple[int, Term]] = []
        total, plan = 0, None
        for batch, size in self.objective.batches:
            if plan is None:
                term, plan = self._first(batch, size, active)
                terms.append((size, term))
            elif plan.kept:
                terms.append((size, self._term(batch, active)))
            total += size
        assert plan is not None, "there is at least one batch"
        self._plan, self._state = plan, state
        self._terms = terms if plan.kept else None
        self._total = int(self._reduce(torch.tensor(total, device=self.device)))

    def _term(self, batch: Batch, parameters: Sequence[Tensor]) -> Term:
        with plain_weight_norm(), matmul_convolutions():
            return self.make_term(self.objective, batch, parameters)

    def _check_parameters(self) -> None:
        present = {id(p) for p in self.objective.model.parameters()}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if id(parameter) not in present:
                raise UsageError(
                    f"The parameter {name} was taken out of the model or replaced by another since "
                    "the matrix was made; make a new one of the model as it is now."
                )

    def _first(self, batch: Batch, size: int, active: Sequence[Tensor]) -> tuple[Term, ProductPlan]:
        term = self._term(batch, active)
        nodes = list(graph_nodes(term.roots))
        # n roundings in a row add up as √n of one (Higham and Mary, 2019), here twice of that: with √n alone
        # 2 of 48 eigenvalues in float32, both of plain-20, were farther from those in float64
        eps = max(torch.finfo(p.dtype).eps for p in self.parameters)
        self.rounding = 2 * eps * len(nodes) ** 0.5
        kinds = {node.name() for node in nodes}
        if any("ScaledDotProduct" in kind for kind in kinds):
            raise _FusedAttention
        if any(kind.endswith("::Error") for kind in kinds):
            raise UsageError(
                "A part of this loss can be differentiated only once (a custom function marked "
                "once_differentiable); its curvature would be left out. Replace it by one that "
                "torch can differentiate twice."
            )
        leaves = {id(node.variable) for node in nodes if hasattr(node, "variable")}
        if isinstance(term, HessianTerm) and leaves.isdisjoint(id(p) for p in active):
            self.objective.say(
                "The gradient does not depend on the parameters as far as torch can see: the "
                "curvature is zero. If the loss is curved, some part of it is computed without a "
                "graph (detach, no_grad, numpy)."
            )
        self._check_symmetry(term, active)
        self._check_custom_functions(term, batch, active)
        return term, self._plan_products(held_bytes(nodes), size)

    def leave_symmetry_to_caller(self) -> None:
        """Make no products to check symmetry: the caller has some of its own for `check_symmetry_of`."""
        self._symmetric = True

    def check_symmetry_of(
        self, vectors: Float[Tensor, " d b"], products: Float[Tensor, " d b"]
    ) -> None:
        """Check by products with random vectors that are made anyway; in doubt, by products for it alone.

        Raises:
            BathyscopeError: the matrix is not symmetric: some second derivative is wrong.
        """
        if not are_symmetric(vectors, products, [self.parameters[i] for i in self._active]):
            self._symmetric = False
            self.free()
            self._prepare()

    def _check_symmetry(self, term: Term, active: Sequence[Tensor]) -> None:
        """Once for an operator: what makes a second derivative wrong is how the loss is written."""
        if self._symmetric:
            return
        wrong = torch.tensor(int(not is_symmetric(term, active)), device=self.device)
        if bool(self._reduce(wrong)):
            raise BathyscopeError(
                "The second derivative that torch computes here is wrong: vᵀHw and wᵀHv differ. "
                "Some layer's gradient is none (Embedding with scale_grad_by_freq) or cannot be "
                "differentiated rightly (a custom or fused function); replace that layer, or "
                "leave its parameters out with parameters=[...]."
            )
        self._symmetric = True

    def _check_custom_functions(self, term: Term, batch: Batch, active: Sequence[Tensor]) -> None:
        """Once for an operator, too: a backward that keeps a constant is wrong in a symmetric way."""
        if not isinstance(term, HessianTerm) or self._differentiated:
            return
        value, term.value = term.value, None
        wrong = (
            value is not None
            and has_custom_function(value)
            and not is_slope_of_gradient(term, self.objective, batch, active)
        )
        if bool(self._reduce(torch.tensor(int(wrong), device=self.device))):
            raise BathyscopeError(
                "The second derivative that torch computes here is wrong: it is not the slope of the "
                "gradient. The model or the loss calls a torch.autograd.Function of its own whose "
                "backward cannot be differentiated: (a) it reads a tensor that forward computed and "
                "kept as an attribute or an intermediate, which is a constant to torch: save inputs "
                "and outputs alone with ctx.save_for_backward, and compute the rest in backward; "
                "(b) its gradient is not that of its forward (straight-through): replace it, or leave "
                "its parameters out with parameters=[...]."
            )
        self._differentiated = True

    def _reduce(self, local: Tensor, *, minimum: bool = False) -> Tensor:
        """The sum (or the smallest) over the processes of the model; the tensor itself for one alone."""
        if self.objective.shared:
            local = local.contiguous()
            with describe_lost_peer("a product with the curvature matrix"):
                dist.all_reduce(local, op=dist.ReduceOp.MIN if minimum else dist.ReduceOp.SUM)
        return local

    def _plan_products(self, one_graph: int, size: int) -> ProductPlan:
        free = available_bytes(self.device)
        allowed = int(_KEPT_FRACTION * free) if self.budget is None else self.budget
        whole = one_graph * self.objective.batches.num_samples // max(size, 1)
        # data that are read again each time may not be frozen in a graph
        kept = whole <= allowed and bool(self.objective.batches.held)
        # torch's kernels for a block of half-precision matrices end the process on some machines
        wide = all(p.dtype in (torch.float32, torch.float64) for p in self.parameters)
        together = one_graph <= _TOGETHER_BYTES and wide
        work = max(one_graph, 1)
        # one by one a vector and its product take room, together as much as the graph each
        each = work if together else 2 * self.shape[0] * torch.finfo(self.dtype).bits // 8
        at_once = max(1, min(_MOST_AT_ONCE, (max(free, whole) - whole) // (4 * each)))
        # every process must cut a block of vectors in the same way
        at_once = int(self._reduce(torch.tensor(at_once, device=self.device), minimum=True))
        graph = whole if kept else one_graph
        return ProductPlan(
            kept=kept,
            together=together,
            graph_bytes=graph,
            available_bytes=free,
            at_once=at_once,
            peak_bytes=graph + at_once * each + (0 if together else work),
        )

    def _times(self, block: Tensor, positions: Sequence[int]) -> Tensor:
        """One block of at most `at_once` vectors, summed over batches and processes."""
        sizes = [self.parameters[i].numel() for i in positions]
        parts = block.T.split(sizes, dim=1)
        chosen = [n for n, i in enumerate(positions) if self.parameters[i].requires_grad]
        rows = block.new_zeros(block.shape[1], block.shape[0])
        if chosen:
            wanted = [self.parameters[positions[n]] for n in chosen]
            vectors = [
                parts[n].reshape(len(parts[n]), *p.shape).to(p.device, p.dtype)
                for n, p in zip(chosen, wanted, strict=True)
            ]
            assert self._plan is not None, "a session makes the plan"
            for size, term in self._each_term([positions[n] for n in chosen]):
                products = term.times(vectors, together=self._plan.together)
                ours = rows.split(
                    sizes, dim=1
                )  # summed in place: one more is as large as the model
                for n, product in zip(chosen, products, strict=True):
                    flat = product.reshape(ours[n].shape).to(rows.device, rows.dtype)
                    ours[n].add_(flat, alpha=size / self._total)
        self.num_products += block.shape[1]
        self.on_product(block.shape[1])
        result = self._reduce(rows).T
        # the largest entry, in one reduction: `isfinite` of all would take two vectors more
        if result.numel() and not bool(torch.linalg.vector_norm(result, torch.inf).isfinite()):
            raise BathyscopeError(
                "A product with the curvature matrix is non-finite though the loss is: some second "
                "derivative overflows (a square root or division at zero?); try float64."
            )
        return result

    def _each_term(self, chosen: Sequence[int]) -> Iterator[tuple[int, Term]]:
        if self._terms is None:
            parameters = [self.parameters[i] for i in chosen]
            for batch, size in self.objective.batches:
                yield size, self._term(batch, parameters)
            return
        positions = [self._active.index(i) for i in chosen]
        whole = len(positions) == len(self._active)
        for size, term in self._terms:
            yield size, term if whole else term.restrict(positions)


class DiagonalBlock:
    """The diagonal block of some parameters of a curvature operator, as an operator itself."""

    def __init__(self, whole: CurvatureOperator, positions: Sequence[int]) -> None:
        self.whole, self.positions = whole, tuple(positions)
        self.dtype, self.device, self.rounding = whole.dtype, whole.device, whole.rounding
        self.dim = sum(whole.parameters[i].numel() for i in positions)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, m)."""
        return self.dim, self.dim

    def __matmul__(self, block: Float[Tensor, " m b"]) -> Float[Tensor, " m b"]:
        return self.whole.times(block, self.positions)
