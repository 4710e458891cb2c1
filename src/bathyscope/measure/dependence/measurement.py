"""The measurements `dependence` and `effective_targets`: what was found, as the rules read it."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.calls import unwrap
from bathyscope.core.fetch import OnHost
from bathyscope.core.json_values import JsonObject
from bathyscope.core.losses import keeps_no_tensor
from bathyscope.core.records import Measurement
from bathyscope.core.walks import named_modules
from bathyscope.measure.dependence.dependence import Dependence, dependence
from bathyscope.measure.dependence.input_roles import are_vectors, named_inputs
from bathyscope.measure.dependence.padding import end_is_padding, padding_asked
from bathyscope.measure.dependence.parameter_lists import detached_parameters
from bathyscope.measure.dependence.position_map import PositionMap
from bathyscope.measure.dependence.without_pass import unnormalized_spectral_norms
from bathyscope.measure.effective_targets import EffectiveTargets, targets_of_loss
from bathyscope.measure.loss_form import LossTerms, loss_terms, term_edges

_MOST_COLUMNS = 64
_NAMED = 6


class LossReader:
    """Reads the end of a pass: what the loss asks for, and how many terms it adds up."""

    def __init__(self, loss: LossFn, batch: Batch, on_host: OnHost | None = None) -> None:
        self.loss = loss
        self.batch = batch
        self.on_host = on_host or OnHost()
        self.result: EffectiveTargets | None = None
        self.num_terms = 1

    def __call__(self, output: object, value: Tensor) -> None:
        """Take the output while it is there; the loss is computed again on copies of it."""
        self.num_terms = len(term_edges(value))
        if self.on_host.can_hold(output, self.batch[1]) and keeps_no_tensor(self.loss):
            near = self.on_host.batch(*self.batch)[0], self.on_host.of(self.batch[1])
            output, self.batch = self.on_host.of(output), near
        self.result = targets_of_loss(output, None, self.batch, loss=self.loss)


def dependence_measurements(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer | None = None,
    reader: LossReader | None = None,
    unreached: Sequence[str] = (),
) -> tuple[Measurement, Measurement]:
    """The measurements `dependence` and `effective_targets` of a model.

    Args:
        model: any module, left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        optimizer: the one meant for training.
        reader: one that has read a pass of the whole batch; without it the loss is read on few samples.
        unreached: names of trainable parameters that a backward pass of the batch does not reach.
    """
    result = reader.result if reader is not None else None
    is_read = result is not None and not result.not_checked
    outcome = dependence(model, batch, optimizer=optimizer, loss=None if is_read else loss)
    if not is_read and outcome.asks is not None:
        result = outcome.asks
    terms = None
    if reader is not None and reader.num_terms > 1:
        terms = loss_terms(model, batch, loss=loss)
    settings = _settings(outcome)
    if unreached:
        detached = detached_parameters(model, batch, unreached=unreached)
        settings |= _listed("detached", detached.names)
        if detached.names:
            from bathyscope.measure.dependence.graph_cuts import graph_cuts

            settings["graph_cuts"] = ", ".join(graph_cuts(model, batch, unreached=detached.names))
    norms = unnormalized_spectral_norms(model)
    if norms:
        name = max(norms, key=norms.__getitem__)
        settings |= {"spectral_norm": norms[name], "spectral_norm_layer": name}
    settings["takes_time_first"] = any(
        getattr(m, "batch_first", True) is False for m in named_modules(unwrap(model)).values()
    )
    settings["not_checked"] = outcome.not_checked
    asked = _asked(result, terms)
    if result is not None:
        inputs = reader.batch[0] if reader is not None and is_read else outcome.few_inputs
        if not are_vectors(named_inputs(inputs)):
            asked["padding_asked"] = padding_asked(inputs, result)
            asked["end_is_padding"] = end_is_padding(unwrap(model), inputs, result)
    return (
        Measurement(name="dependence", blocks=(), columns={}, settings=settings),
        Measurement(name="effective_targets", blocks=(), columns={}, settings=asked),
    )


def _listed(name: str, names: Iterable[str]) -> JsonObject:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return {name: len(listed), f"{name}_names": ", ".join(listed[:_NAMED]) + more}


def _settings(result: Dependence) -> JsonObject:
    settings: JsonObject = {"time_first": result.time_first, "documents_cross": result.documents}
    if (samples := result.samples) is not None:
        settings |= {
            "mixes": samples.mixes,
            "other_samples": samples.gradient,
            "company": samples.company,
            "place": samples.location,
            "repeat": samples.repeat,
            "depends_on_place": samples.depends_on_place,
            "is_random": samples.is_random,
            "carries_state": samples.carries_state,
            "eval_dropout": samples.dropout,
            "samples": samples.samples,
            **_listed("batch_statistics", samples.batch_statistics),
        }
    settings |= _positions(result.positions)
    if result.unread:
        worst = max(result.unread, key=lambda one: one.fraction)
        settings |= {
            "unread": worst.fraction,
            "unread_kind": worst.kind,
            "unread_name": worst.name,
            "unread_positions": ", ".join(map(str, worst.unread)),
            "unread_fades": worst.fades,
        }
    if (padding := result.padding) is not None:
        settings |= {
            "padding": padding.fraction,
            "padding_known_by": padding.known_by,
            "padding_given": padding.is_given,
            "padding_side": padding.side,
            "padding_read": padding.read,
            "padding_is_read": padding.is_read,
            "padding_fraction": padding.fraction,
            "real_unread": padding.real_unread,
            "behind_padding": padding.behind_padding,
        }
    if (heads := result.heads) is not None:
        settings |= {
            "heads": heads.heads,
            "heads_cross": heads.crosses_positions,
            "heads_query": heads.query,
            "heads_read": heads.reads,
        }
    return settings | _of_weights(result) | _of_components(result)


def _of_components(result: Dependence) -> JsonObject:
    """Norms that stand out, tables with lost rows, layers one behind the other, odd attention, the cache."""
    parts = result.components
    settings: JsonObject = {
        **_listed("linear_pairs", parts.linear_pairs),
        **_listed("partly_frozen", parts.partly_frozen),
        "swapped_axes": "; ".join(parts.swapped_axes),
        "merged_tokens": parts.merged_tokens,
        "constant_outputs": parts.constant_outputs,
        "attention_oddities": ", ".join(result.oddities),
        "cache_difference": result.cache,
        "reads_shifted_labels": result.reads_shifted_labels,
    }
    if parts.norms:
        gains = sorted(norm.gain for norm in parts.norms)
        typical = gains[len(gains) // 2]
        settings["norm_gains"] = {norm.name: norm.gain for norm in parts.norms}
        settings["typical_gain"] = typical
        far = max(parts.norms, key=lambda norm: norm.offset / max(norm.gain, 1e-12))
        settings |= {"norm_offset": far.offset, "norm_offset_gain": far.gain}
        settings["norm_offset_name"] = far.name
        known = [norm for norm in parts.norms if norm.epsilon_fraction is not None]
        if known:
            worst = max(known, key=lambda norm: norm.epsilon_fraction or 0.0)
            settings |= {"epsilon_fraction": worst.epsilon_fraction, "epsilon_name": worst.name}
    for kind, tables in (
        ("token", [t for t in parts.tables if not t.for_positions]),
        ("position", [t for t in parts.tables if t.for_positions]),
    ):
        if tables:
            lost = max(tables, key=lambda t: (t.zero_rows + t.equal_rows) / max(1, t.rows))
            settings |= {
                f"{kind}_rows": lost.rows,
                f"{kind}_zero_rows": lost.zero_rows,
                f"{kind}_equal_rows": lost.equal_rows,
                f"{kind}_table": lost.name,
            }
    read = max(parts.tables, key=lambda t: t.padding_in_text, default=None)
    if read is not None and read.padding_in_text > 0:
        settings |= {"padding_in_text": read.padding_in_text, "padding_table": read.name}
    dead = max(parts.tables, key=lambda t: t.zero_columns, default=None)
    if dead is not None:
        settings |= {"zero_columns": dead.zero_columns, "zero_columns_table": dead.name}
    return settings


def _of_weights(result: Dependence) -> JsonObject:
    settings: JsonObject = {}
    if (lists := result.parameters) is not None:
        settings |= {
            **_listed("unlisted", lists.unlisted),
            "unlisted_held_by": lists.held_by,
            "made_in_forward": lists.made_in_forward,
            **_listed("repeated", lists.repeated),
            "untied_names": " and ".join(lists.untied) if lists.untied else None,
            "foreign": lists.foreign,
        }
    if (norms := result.norms) is not None:
        settings |= {
            **_listed("still_norms", norms.still),
            "still_at_start": len(norms.still_at_start),
            **_listed("last_batch_norms", norms.last_batch),
            "norm_channel_range": norms.channel_range,
            "norm_other_range": norms.other_range,
        }
    if (weights := result.weights) is not None:
        settings |= {
            **_listed("frozen_fresh", weights.frozen),
            "frozen_layers": weights.frozen_layers,
            "fresh_head": weights.head,
            "fresh_head_is_vocabulary": weights.is_vocabulary,
        }
    if (channels := result.channels) is not None:
        settings |= {
            "interleaved": channels.interleaved,
            "channels": channels.channels,
            "channel_period": channels.period / channels.step,
        }
    return settings


def _positions(result: PositionMap | None) -> JsonObject:
    if result is None or not result.rows:
        return {}
    inner = [i for i, row in enumerate(result.rows) if row + 1 < result.positions]
    following = [bool(result.reads[i, result.rows[i] + 1]) for i in inner]
    shown = result.reads[:_MOST_COLUMNS, :_MOST_COLUMNS].tolist()
    return {
        "pattern": result.pattern,
        "positions": result.positions,
        "reads_back": result.back,
        "reads_ahead": result.ahead,
        "reads_next": sum(following) / len(following) if following else None,
        "map_rows": result.rows[:_MOST_COLUMNS],
        # a small picture: one line per position of the output, # where it reads the input's
        "map": tuple("".join("#" if is_read else "." for is_read in row) for row in shown),
        "map_is_exact": result.is_exact,
    }


def _asked(result: EffectiveTargets | None, terms: LossTerms | None) -> JsonObject:
    settings: JsonObject = {}
    if terms is not None:
        settings |= {
            "num_terms": terms.number,
            "term_norms": terms.norms,
            "outweighs": terms.outweighs,
        }
    if result is None:
        return settings
    settings |= {
        "num_classes": result.num_classes or None,
        "silent": result.silent,
        "offset": result.offset,
        "offset_fraction": result.offset_fraction,
        "ignored": len(result.ignored),
        "ignored_classes": ", ".join(map(str, result.ignored)),
        "ignored_fraction": result.ignored_fraction,
        "values_spread": result.values_spread,
        "agreement": result.agreement,
        "across_samples": result.across_samples,
        "not_checked": result.not_checked,
    }
    if (weights := result.weights) is not None:
        settings |= {
            "weight_slope": weights.slope,
            "weight_correlation": weights.correlation,
            "weight_range": weights.weight_range,
            "weighted_classes": len(weights.classes),
            "largest_count": max(weights.counts),
            "smallest_count": min(weights.counts),
        }
    if (floor := result.floor) is not None:
        settings |= {
            "takes_logarithms": floor.is_linear,
            "given": floor.given,
            "unit_rows": floor.unit_rows,
            "collapsed_loss": floor.collapsed,
            "reachable_loss": floor.reachable,
            "temperature": floor.temperature,
            "value": floor.value,
        }
    return settings
