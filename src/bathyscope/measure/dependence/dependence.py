"""Who depends on whom in a model, from one pass of few samples in eval mode and what leads back from it."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, loss_value
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import map_tensors, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.dependence.cached_pass import cache_difference
from bathyscope.measure.dependence.components import (
    Components,
    constant_outputs,
    norm_uses,
    partly_frozen,
)
from bathyscope.measure.dependence.eval_pass import (
    EvalPass,
    NotMeasurable,
    eval_pass,
    few_in_eval_pass,
    few_of,
    select_samples,
)
from bathyscope.measure.dependence.input_roles import (
    UnreadInput,
    are_vectors,
    named_inputs,
    relates_samples,
    unread_of_pass,
)
from bathyscope.measure.dependence.padding import (
    Padding,
    PaddingRead,
    documents_cross,
    documents_of,
    padding_of,
    padding_read,
    padding_token,
)
from bathyscope.measure.dependence.parameter_lists import ParameterLists, lists_of_pass
from bathyscope.measure.dependence.position_map import (
    HeadSplit,
    PositionMap,
    default_rows,
    head_split,
    is_unsure,
    map_by_substitution,
    map_of_pass,
    output_positions,
)
from bathyscope.measure.dependence.sample_mixing import (
    SampleDependence,
    every_second,
    may_be_time_first,
    sample_axis,
    samples_of_pass,
    seed_samples,
)
from bathyscope.measure.dependence.whole_map import all_is_read, map_to_the_end, shows_all
from bathyscope.measure.dependence.without_pass import (
    ChannelOrder,
    FreshWeights,
    NormStatistics,
    channel_order,
    fresh_weights,
    norm_statistics,
)
from bathyscope.measure.effective_targets import EffectiveTargets, targets_of_loss

_MORE_SAMPLES = 32
"""Samples over which an input that few samples leave unread is looked for again: a maximum picks few."""
_MUCH_UNREAD = 0.25


@dataclass(frozen=True, slots=True)
class Dependence:
    """Who reads whom.

    Attributes:
        samples: other samples, and the place in the batch.
        positions: which positions read which.
        unread: what of each input is never read.
        padding: whether padding is read; None where there is none.
        documents: fraction of the reading that crosses packed documents; None where there are none.
        heads: what the first queries read; None without attention over the input's positions.
        parameters: what the graph holds and the model does not list.
        norms: statistics of batch norms.
        weights: fresh ones among frozen ones.
        channels: of images; None without any.
        asks: what the loss asks of these few outputs; None where no loss was given or it failed.
        few_inputs: the inputs of these outputs.
        components: norms, tables and layers as the pass uses them.
        oddities: of attention that is written out: a softmax along another axis, twice, or none.
        reads_shifted_labels: whether `positions` are those of a decoder that is given the labels, shifted.
        cache: relative difference between one pass and the same in two cached halves; None without a cache.
        time_first: whether samples that seem to read one another may be steps of time.
        not_checked: what was left out, and why.
    """

    samples: SampleDependence | None = None
    positions: PositionMap | None = None
    unread: tuple[UnreadInput, ...] = ()
    padding: PaddingRead | None = None
    documents: float | None = None
    heads: HeadSplit | None = None
    parameters: ParameterLists | None = None
    norms: NormStatistics | None = None
    weights: FreshWeights | None = None
    channels: ChannelOrder | None = None
    asks: EffectiveTargets | None = None
    few_inputs: object = None
    components: Components = field(default_factory=Components)
    oddities: tuple[str, ...] = ()
    cache: float | None = None
    reads_shifted_labels: bool = False
    time_first: bool = False
    not_checked: tuple[str, ...] = field(default=())


def dependence(
    model: nn.Module,
    batch: Batch,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    loss: LossFn | None = None,
) -> Dependence:
    """Who reads whom: samples, positions, inputs and parameters, in eval mode.

    One pass of three samples with its graph, one of a single sample without, and two backward passes, or one
    where that shows all; more only where something is found. Integer inputs are differentiated at their
    embeddings, or changed where there are none.

    Args:
        model: any module, left as it was.
        batch: inputs and targets.
        optimizer: the one meant for training.
        loss: a scalar from output and targets, read on these few samples.

    Examples:
        >>> class Tagger(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.embedding = nn.Embedding(9, 6)
        ...         self.rnn = nn.GRU(6, 6, batch_first=True)
        ...     def forward(self, tokens):
        ...         return self.rnn(self.embedding(tokens))[0]
        >>> found = dependence(Tagger(), (torch.randint(9, (8, 12)), None))
        >>> found.positions.pattern, found.samples.mixes
        ('causal', False)
    """
    model = unwrap(model)
    inputs, targets = batch
    weights, still = fresh_weights(model), norm_statistics(model)
    axis = sample_axis(inputs, targets)
    known = named_inputs(inputs)
    images = next((one.tensor for one in known if one.role == "values"), None)
    channels = channel_order(images) if images is not None else None
    fixed = Dependence(norms=still, weights=weights, channels=channels)
    padding = None
    if axis == 0 and not are_vectors(known):
        padding = padding_of(known, padding_idx=padding_token(model))
    related = relates_samples(model, inputs)
    with preserve_model(model, copy_parameters=False):
        try:
            ran, chosen = _run(model, inputs, axis, padding, related)
        except NotMeasurable as error:
            return replace(fixed, not_checked=(str(error),))
        where = None if padding is None else padding.where.cpu()[chosen]
        result = _of_pass(model, batch, ran, fixed, related=related, padding=padding, where=where)
        mixes = result.samples is not None and result.samples.mixes and axis == 0
        if mixes and may_be_time_first(model, inputs, targets, ran.output):
            result = _time_first(model, batch, fixed, result)
        has_tokens = any(one.role == "tokens" for one in ran.named)
        return replace(
            result,
            parameters=lists_of_pass(model, ran, optimizer=optimizer),
            components=_components(model, inputs, ran, has_padding=padding is not None),
            oddities=() if ran.capture is None else ran.capture.oddities,
            cache=cache_difference(model, ran) if has_tokens else None,
            reads_shifted_labels=ran.decoder is not None
            and ran.sources[ran.decoder].name.endswith("shifted"),
            asks=None if loss is None else _asks(ran, targets, chosen, loss),
            few_inputs=ran.inputs,
        )


def _components(
    model: nn.Module, inputs: object, ran: EvalPass, *, has_padding: bool
) -> Components:
    """What the pass has shown of the network's components."""
    if ran.capture is None:
        return Components()
    watch = ran.capture.components
    known = named_inputs(inputs)
    # positions that begin again share their vectors by design
    restarts = has_padding or (not are_vectors(known) and documents_of(known) is not None)
    tokens = (one.tensor for one in known if one.role in ("tokens", "labels"))
    return Components(
        norms=norm_uses(watch.norm_rows),
        tables=watch.tables(tokens, has_padding=restarts),
        linear_pairs=tuple(watch.linear_pairs),
        merged_tokens=ran.capture.merged_tokens,
        constant_outputs=constant_outputs(ran.output),
        partly_frozen=partly_frozen(model),
        swapped_axes=tuple(watch.swapped_axes),
    )


def _asks(
    ran: EvalPass, targets: object, chosen: list[int], loss: LossFn
) -> EffectiveTargets | None:
    """What the loss asks of the outputs of a pass, where it can be computed on these few samples."""
    some = select_samples(targets, chosen, axis=ran.input_axis) if targets is not None else None
    try:
        value = loss_value(loss, ran.result, some)
    except BathyscopeError:
        return None
    return targets_of_loss(ran.result, value, (ran.inputs, some), loss=loss)


def _run(
    model: nn.Module, inputs: object, axis: int, padding: Padding | None, related: str | None
) -> tuple[EvalPass, list[int]]:
    """The pass of few samples, the most padded ones among them where there is padding, and which they are."""
    first: list[int] = []
    if padding is not None:
        by_padding = padding.where.sum(1).argsort(descending=True, stable=True).tolist()
        first = [by_padding[0], by_padding[-1], *by_padding[1:2]]
    if related is not None:
        whole = next(t.shape[axis] for t in tensors_in(inputs) if t.ndim > axis)
        return eval_pass(model, inputs, axis=axis), list(range(whole))
    return few_in_eval_pass(model, inputs, axis=axis, first=first)


def _of_pass(
    model: nn.Module,
    batch: Batch,
    ran: EvalPass,
    result: Dependence,
    *,
    related: str | None = None,
    padding: Padding | None = None,
    where: Tensor | None = None,
) -> Dependence:
    left_out: list[str] = []
    gradients: list[Tensor | None] | None = None
    asked = every_second(ran.samples)
    main = ran.main
    has_order = (
        main is not None and main.kind != "table" and output_positions(ran, main) is not None
    )
    whole = map_to_the_end(ran) if has_order and related is None and where is None else None
    is_known = whole is not None and shows_all(whole)
    if ran.sources and not is_known:
        try:
            gradients = ran.gradients(seed_samples(ran, asked, at=_real_outputs(ran, where)))
        except NotMeasurable as error:
            left_out.append(str(error))
    samples = None
    if related is None:
        samples = samples_of_pass(model, ran, gradients=gradients, are_apart=is_known)
        left_out += samples.not_checked
    else:
        left_out.append(f"samples: {related} relates them to each other")
    result = replace(result, samples=samples, norms=norm_statistics_of(result, model, ran))
    if is_known:
        result = replace(result, unread=all_is_read(ran))
    elif gradients is not None:
        unread = unread_of_pass(ran, gradients, asked=asked, padding=where)
        if any(one.fraction > _MUCH_UNREAD and one.kind != "table" for one in unread):
            unread = _with_more_samples(model, batch[0], ran, unread, padding)
        if any(one.fraction > 0 for one in unread) and (silent := _zero_weights(model)):
            # a branch that starts at zero leaves a strided shortcut, which skips pixels until it moves
            left_out += (f"input that is never read: {silent} is zero and hides what it reads",)
            unread = ()
        read = None
        if padding is not None and where is not None:
            read = padding_read(model, ran, gradients, padding, where=where, asked=asked)
        result = replace(result, unread=unread, padding=read)
    if related is not None or (samples is not None and samples.mixes):
        left_out.append("positions: samples read one another")
    elif are_vectors(ran.named) and ran.queries is None:
        left_out.append("positions: the inputs have none")
    else:
        has_gradients = is_known or gradients is not None
        result = _with_positions(model, ran, result, where, whole, has_gradients=has_gradients)
        left_out += result.positions.not_checked if result.positions is not None else ()
    return replace(result, not_checked=tuple(dict.fromkeys([*result.not_checked, *left_out])))


def norm_statistics_of(
    result: Dependence, model: nn.Module, ran: EvalPass
) -> NormStatistics | None:
    """The momenta, read before the mode was changed, with the scales of what the norms were given."""
    if result.norms is not None and not ran.norm_inputs:
        return result.norms
    ranges = norm_statistics(model, inputs=ran.norm_inputs)
    if result.norms is None:
        return ranges
    return replace(result.norms, channel_range=ranges.channel_range, other_range=ranges.other_range)


def _with_positions(
    model: nn.Module,
    ran: EvalPass,
    result: Dependence,
    where: Tensor | None,
    whole: PositionMap | None,
    *,
    has_gradients: bool,
) -> Dependence:
    if not has_gradients:
        return replace(result, positions=map_by_substitution(model, ran))
    try:
        if ran.decoder is not None:
            return replace(result, positions=map_of_pass(ran, source_number=ran.decoder))
        positions = whole or map_of_pass(ran, rows=_real_rows(ran, where))
        if is_unsure(positions):
            positions = _in_double(model, ran, positions)
        documents = documents_of(ran.named)
        crossing = None if documents is None else documents_cross(ran, documents)
        return replace(result, positions=positions, documents=crossing, heads=head_split(ran))
    except (NotMeasurable, RuntimeError) as error:
        return replace(result, not_checked=(*result.not_checked, f"positions: {error}"))


def _real_outputs(ran: EvalPass, where: Tensor | None) -> Tensor | None:
    """(samples, positions), true where the output is one of a real token; None where it has no positions."""
    source = ran.main
    if where is None or source is None or output_positions(ran, source) != (1,):
        return None
    return ~where.cpu()


def _real_rows(ran: EvalPass, where: Tensor | None) -> tuple[int, ...] | None:
    """For each sample a position that is not padding; None for the default."""
    if where is None or ran.main is None or where.shape[1] != ran.main.positions:
        return None
    wanted = default_rows(where.shape[1], ran.samples)
    rows = []
    for sample, row in enumerate(wanted):
        real = (~where[sample]).nonzero().flatten()
        rows.append(int(real[(real - row).abs().argmin()]) if len(real) else row)
    return tuple(rows)


def _in_double(model: nn.Module, ran: EvalPass, result: PositionMap) -> PositionMap:
    """The same rows in float64, where a number lies near the threshold; the caller restores the model."""
    wide = map_tensors(ran.inputs, lambda t: t.double() if t.is_floating_point() else t)
    try:
        model.double()
        again = eval_pass(model, wide, axis=ran.input_axis)
        return map_of_pass(again, rows=result.rows, at=result.samples)
    except (NotMeasurable, RuntimeError) as error:
        note = f"positions in float64: {error}"
        return replace(result, not_checked=(*result.not_checked, note))


def _zero_weights(model: nn.Module) -> str | None:
    """The first weight that is zero throughout, by its name."""
    return next(
        (
            name
            for name, value in model.named_parameters()
            if name.endswith("weight") and value.numel() and not value.detach().any()
        ),
        None,
    )


def _with_more_samples(
    model: nn.Module,
    inputs: object,
    ran: EvalPass,
    before: tuple[UnreadInput, ...],
    padding: Padding | None,
) -> tuple[UnreadInput, ...]:
    """What more samples leave unread as well: a maximum over positions picks others in each."""
    more, chosen = few_of(inputs, axis=ran.input_axis, most=_MORE_SAMPLES)
    if len(chosen) <= ran.samples:
        return before
    try:
        wide = eval_pass(model, more, axis=ran.input_axis)
        everyone = torch.ones(len(chosen), dtype=torch.bool, device="cpu")
        gradients = wide.gradients(seed_samples(wide, everyone))
    except NotMeasurable:
        return before
    where = None if padding is None else padding.where.cpu()[chosen]
    return unread_of_pass(wide, gradients, asked=everyone, padding=where)


def _time_first(
    model: nn.Module, batch: Batch, fixed: Dependence, result: Dependence
) -> Dependence:
    """The same with the samples on the second axis, where nothing is mixed along it."""
    try:
        few, _ = few_of(batch[0], axis=1)
        other = _of_pass(model, batch, eval_pass(model, few, axis=1), fixed)
    except NotMeasurable:
        return result
    # positions along the second axis: that one is the time, and samples do read one another
    if other.samples is None or other.samples.mixes or other.samples.depends_on_place:
        return result
    return replace(other, time_first=True)
