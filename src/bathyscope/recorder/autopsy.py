"""After the crash: what a log, a run's metrics, or two states of the weights show of a training."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError, shorten
from bathyscope.recorder.detect import gradient_spike, loss_spike, non_finite
from bathyscope.recorder.event import Event
from bathyscope.recorder.history import History, Signal
from bathyscope.recorder.log import STEPS, is_log, read_events
from bathyscope.rules import rule_of
from bathyscope.runs import is_run, read_metrics, stored_weights

# A layer that moved this many times as far as the median layer did moved unlike the others.
_UNLIKE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChange:
    """What became of a layer between two states of the weights.

    Attributes:
        layer: its name.
        norm_before, norm_after: ‖w‖₂ over its parameters.
        moved: ‖w_after − w_before‖ / ‖w_before‖; infinite where a value is non-finite.
        lost: number of values that are non-finite afterwards.
    """

    layer: str
    norm_before: float
    norm_after: float
    moved: float
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Autopsy:
    """What is known of how a training went wrong.

    Attributes:
        sentences: what happened, in order.
        began: where it began, if that can be said: a block or layer, `batch`, `learning rate`, …
        advice: what to change.
        events: that were recorded or found in the metrics.
        layers: between two states of the weights, the furthest first.
    """

    sentences: tuple[str, ...]
    began: str | None
    advice: tuple[str, ...]
    events: tuple[Event, ...] = ()
    layers: tuple[LayerChange, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*self.sentences, *(f"→ {line}" for line in self.advice)])


def autopsy(source: object, after: Mapping[Any, Tensor] | None = None) -> Autopsy:
    """What went wrong in a training, in order, where it began, and what to change.

    Args:
        source: the folder of a log that `watch` wrote, the folder of a run, records of metrics, or,
            with `after`, an earlier state of the weights.
        after: the later state of the weights.

    Raises:
        UsageError: it is none of these.
    """
    if after is not None:
        return autopsy_of_weights(source, after)  # type: ignore[arg-type]  # it checks both
    if not isinstance(source, (str, Path)):
        return autopsy_of_metrics(source)  # type: ignore[arg-type]  # it checks every record
    folder = Path(source)
    if is_log(folder):
        return autopsy_of_log(folder)
    if is_run(folder):
        return _of_run(folder)
    raise UsageError(
        f"{folder} is neither a log of `bathyscope.watch` nor the folder of a run; give one of these, "
        "or two states of the weights, the earlier first."
    )


def _of_run(folder: Path) -> Autopsy:
    """From the metrics of a run, and from its last two checkpoints where there are two."""
    result = autopsy_of_metrics(read_metrics(folder / "metrics.jsonl"))
    states = stored_weights(folder)
    if len(states) < 2:
        return result
    (later, after), (earlier, before) = states[:2]
    weights = autopsy_of_weights(before, after)
    between = f"Between the checkpoints of steps {earlier} and {later}: "
    return replace(
        result,
        sentences=(*result.sentences, between + weights.sentences[0], *weights.sentences[1:]),
        began=weights.began or result.began,
        advice=tuple(dict.fromkeys((*result.advice, *weights.advice))),
        layers=weights.layers,
    )


def autopsy_of_log(folder: Path | str) -> Autopsy:
    """The order of events in a log that `watch` wrote, also where the run was killed.

    Raises:
        UsageError: the folder holds no log.
    """
    events = sorted(read_events(folder), key=lambda event: event.step)
    steps = [record.get("step") for record in read_metrics(Path(folder) / STEPS)]
    if not events:
        last = f" up to step {steps[-1]}" if steps else ""
        return Autopsy(
            sentences=(f"Nothing out of the ordinary was noticed{last}.",), began=None, advice=()
        )
    return _of_events(events)


def autopsy_of_metrics(records: Iterable[Mapping[str, object]]) -> Autopsy:
    """The events that the loss and gradient norm of a run's own metrics show, without any block.

    Raises:
        UsageError: a record is not a mapping.
    """
    history = History(())
    events: list[Event] = []
    none = np.zeros(0)
    is_list = isinstance(records, Iterable) and not hasattr(records, "dtype")
    for record in records if is_list else [records]:
        if not isinstance(record, Mapping):
            raise UsageError(
                f"A record of metrics is a mapping with step and loss, but {shorten(record)} was given; "
                "`runs.read_metrics(path)` reads them."
            )
        step = record.get("step")
        if record.get("kind", "step") != "step" or not isinstance(step, int):
            continue
        signal = Signal(
            step=step,
            loss=_number(record.get("loss")),
            rate=_number(record.get("lr", record.get("rate"))),
            input_scale=math.nan,
            gradients=none,
            weights=none,
            total_gradient=_number(record.get("gradient_norm")),
        )
        history.append(signal)
        result = non_finite(history) or loss_spike(history) or gradient_spike(history)
        if result is None:
            history.accept()
        elif not events or events[-1].code != result.code:
            events.append(result)
    if not events:
        return Autopsy(
            sentences=("The metrics show nothing out of the ordinary.",), began=None, advice=()
        )
    return _of_events(events)


def autopsy_of_weights(before: Mapping[Any, Tensor], after: Mapping[Any, Tensor]) -> Autopsy:
    """Which layer changed unlike the others between two states of the weights.

    Where every layer is lost, the weights do not show where that began, and the answer says so.

    Raises:
        UsageError: the two have no tensor in common, or are not states of weights.
    """
    for weights in (before, after):
        if not isinstance(weights, Mapping) or not all(
            isinstance(tensor, Tensor) for tensor in weights.values()
        ):
            raise UsageError(
                f"The weights are a mapping from names to tensors, as `model.state_dict()` gives, but "
                f"{shorten(weights)} was given."
            )
        empty = [name for name, t in weights.items() if nn.parameter.is_lazy(t) or t.is_meta]
        if empty:
            raise UsageError(
                f"The weights {shorten(empty[0])} have no values (a lazy layer before its first pass, or "
                "the meta device); give states of a model that was trained."
            )
    layers = layer_changes(before, after)
    lost = [layer for layer in layers if layer.lost]
    if lost and len(lost) == len(layers):
        sentence = (
            f"All {len(layers)} layers hold values that are non-finite: one such loss writes itself "
            "into every weight, so the weights alone do not show where it began."
        )
        advice = (
            "Train on from the earlier state under `bathyscope.watch`, which names the block.",
        )
        return Autopsy(sentences=(sentence,), began=None, advice=advice, layers=layers)
    if lost:
        names = ", ".join(layer.layer for layer in lost[:5])
        # gradients run back: the last layer that lost its values is the first that did
        began = [name for name in _layer_names(before) if name in {x.layer for x in lost}][-1]
        sentence = f"{len(lost)} of {len(layers)} layers hold values that are non-finite: {names}."
        return Autopsy(
            sentences=(sentence, f"It began at {began}."),
            began=began,
            advice=(rule_of("non-finite").event_advice,),
            layers=layers,
        )
    typical = float(np.median([layer.moved for layer in layers]))
    first = layers[0]
    if first.moved <= _UNLIKE * max(typical, 1e-12):
        sentence = (
            f"The layers moved alike: by {typical:.2g} of their norm, at most {first.moved:.2g}."
        )
        return Autopsy(sentences=(sentence,), began=None, advice=(), layers=layers)
    sentence = (
        f"{first.layer} moved by {first.moved:.3g} of its norm (‖w‖ {first.norm_before:.3g} → "
        f"{first.norm_after:.3g}), the median layer by {typical:.2g}."
    )
    return Autopsy(
        sentences=(sentence,),
        began=first.layer,
        advice=(rule_of("exploding-weights").event_advice,),
        layers=layers,
    )


def layer_changes(
    before: Mapping[Any, Tensor], after: Mapping[Any, Tensor]
) -> tuple[LayerChange, ...]:
    """Every layer's change between two states of the weights, the furthest first.

    Raises:
        UsageError: the two have no floating tensor of one name and shape.

    Examples:
        >>> changes = layer_changes({"a.weight": torch.ones(4)}, {"a.weight": torch.full((4,), 3.0)})
        >>> changes[0].layer, changes[0].moved
        ('a', 2.0)
    """
    before, after = ({str(name): t for name, t in w.items()} for w in (before, after))
    result = []
    for layer, names in _layer_names(before).items():
        shared = [n for n in names if n in after and after[n].shape == before[n].shape]
        if not shared:
            continue
        old = torch.cat([before[n].to_dense().double().flatten() for n in shared])
        new = torch.cat([after[n].to_dense().double().flatten() for n in shared])
        lost = int((~torch.isfinite(new)).sum())
        scale = max(float(torch.linalg.vector_norm(old)), 1e-30)
        moved = math.inf if lost else float(torch.linalg.vector_norm(new - old)) / scale
        result.append(
            LayerChange(
                layer=layer,
                norm_before=float(torch.linalg.vector_norm(old)),
                norm_after=float(torch.linalg.vector_norm(new)),
                moved=moved,
                lost=lost,
            )
        )
    if not result:
        raise UsageError(
            "The two states of the weights have no tensor of one name and shape in common; give two "
            "checkpoints of one model."
        )
    return tuple(sorted(result, key=lambda change: -change.moved))


def _layer_names(weights: Mapping[Any, Tensor]) -> dict[str, list[str]]:
    """Names of the floating tensors by the module that holds them, in the order in which they come."""
    layers: dict[str, list[str]] = {}
    for key, tensor in weights.items():
        name = str(key)  # optimizers and lists of tensors are saved by whole numbers
        if tensor.is_floating_point():
            layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    return layers


def _of_events(events: list[Event]) -> Autopsy:
    first = events[0]
    context = tuple(f"  before it, {line}" for line in first.before)
    advice = dict.fromkeys(event.advice for event in events[:2])
    return Autopsy(
        sentences=(first.sentence, *context, *(event.sentence for event in events[1:])),
        began=first.began,
        advice=tuple(advice),
        events=tuple(events),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
