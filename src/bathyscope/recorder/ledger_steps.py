"""The steps of a loop's optimizers: what had a gradient, what moved, what was written in between."""

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bathyscope.core.loop_record import LoopRecord, OptimizerUse, ParameterUse, StepRow
from bathyscope.recorder.moves import read_before, take_in
from bathyscope.recorder.sketch import can_be_read, entries
from bathyscope.recorder.tracked_optimizer import Tracked

if TYPE_CHECKING:
    from bathyscope.recorder.ledger_models import ModelLedger

_MOST_OPTIMIZERS, _MOST_ROWS, _FIRST_ROWS = 64, 1500, 256
_DENSE = 12
"""Steps at the beginning that are all looked at."""


def is_looked_at(step: int) -> bool:
    """Whether entries of the parameters are read at a step: ever more rarely."""
    if step < _DENSE:
        return True
    return step % (8 if step < 48 else 32 if step < 1024 else 64 if step < 4096 else 256) == 0


def is_passed_over(step: int) -> bool:
    """Whether a step like those before it is only counted: three of four pairs, at no regular distance."""
    return (((step >> 1) * 0x9E3779B1) >> 16) & 3 != 0


class StepLedger:
    """Keeps the rows.

    Args:
        record: to keep them in.
        models: those of the loop.
        dense: steps after which those like the ones before them are mostly counted and no more; None for
            a record of all.
    """

    def __init__(
        self, record: LoopRecord, models: "ModelLedger", *, dense: int | None = None
    ) -> None:
        self.record = record
        self._dense = dense
        self.models = models
        self.last_loss: float | None = None
        self.loss_scale: float | None = None
        self.is_looked_at = True
        """Whether the step that is under way is one whose entries are read."""
        self._tracked: dict[int, Tracked] = {}
        self._parameters: dict[int, tuple[weakref.ref[Tensor], ParameterUse]] = {}
        self._owner: dict[int, tuple[weakref.ref[Tensor], int]] = {}

    def index_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The number of an optimizer in the record."""
        return self.track(optimizer).use.index

    def tracked(self) -> list[Tracked]:
        """All optimizers that are alive."""
        return [t for t in self._tracked.values() if t.ref() is not None]

    def optimizers(self) -> list[tuple[int, torch.optim.Optimizer]]:
        """Those that are alive, with their numbers in the record."""
        return [(t.use.index, o) for t in self._tracked.values() if (o := t.ref()) is not None]

    def track(self, optimizer: torch.optim.Optimizer) -> Tracked:
        """The state of an optimizer; made at its first mention."""
        result = self._tracked.get(id(optimizer))
        if result is not None and result.ref() is optimizer:
            return result
        inner = inner_optimizer(optimizer)
        if inner is not optimizer:
            return self.track(inner)
        self.record.optimizers_made += 1
        if len(self.record.optimizers) < _MOST_OPTIMIZERS:
            use = OptimizerUse(len(self.record.optimizers), type(optimizer).__name__)
            self.record.optimizers.append(use)
        else:
            use = self.record.optimizers[-1]
        use.first_step = use.first_step or self.record.steps
        self._tracked = {k: t for k, t in self._tracked.items() if t.ref() is not None}
        tracked = self._tracked[id(optimizer)] = Tracked(optimizer, use)
        tracked.passes = self.models.passes()
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        use.epsilon = group.get("eps")
        use.has_moments = bool("betas" in group or group.get("momentum") or "alpha" in group)
        betas = group.get("betas") or (group.get("momentum"), None)
        use.momentum, use.second_decay = (_number(b) if b is not None else None for b in betas[:2])
        use.base_lr = max((_number(g.get("lr")) for g in optimizer.param_groups), default=math.nan)
        parameters = _parameters(optimizer)
        use.num_parameters = len(parameters)
        for p in parameters[:4]:
            owner = self._owner.get(id(p))
            if owner is not None and owner[0]() is p:
                use.replaces = owner[1]
        self._owner.update({id(p): (weakref.ref(p), use.index) for p in parameters})
        tracked.probes = [weakref.ref(p) for p in _some(parameters)]
        self.models.discover(parameters)
        return tracked

    def loaded(self, optimizer: torch.optim.Optimizer) -> None:
        """A state dict was loaded into an optimizer."""
        self.track(optimizer).use.state_loaded = True

    def made(self, optimizer: torch.optim.Optimizer, line: str | None) -> None:
        """An optimizer was constructed."""
        self.track(optimizer).use.created_at = line

    def wants_line(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the line of its step is not known yet."""
        return self.track(optimizer).use.stepped_at is None

    def cleared(self, owner: object, line: str | None) -> None:
        """`zero_grad` of an optimizer, or of a module, was called."""
        if isinstance(owner, nn.Module):
            held = {id(p) for p in owner.parameters()}
            hit = [t for t in self.tracked() if any(id(p) in held for p in t.probe_tensors())]
        else:
            inner = inner_optimizer(owner)
            hit = [t for t in self._tracked.values() if t.ref() is inner]
        for tracked in hit:
            tracked.is_cleared = True
            tracked.was_cleared_after_backward = tracked.num_backward > 0
            tracked.use.cleared_at = line or tracked.use.cleared_at
            tracked.mean_weight = 0.0
            if tracked.backward_lines:
                tracked.cleared_lines += tracked.backward_lines
                tracked.backward_lines.clear()
            tracked.counts.clear()

    def before(
        self, optimizer: torch.optim.Optimizer, line: str | None, *, has_closure: bool
    ) -> None:
        """A step begins: in which condition are the gradients and the weights?"""
        tracked = self.track(optimizer)
        use = tracked.use
        train, in_eval = self.models.passes()
        train, in_eval = train - tracked.passes[0], in_eval - tracked.passes[1]
        tracked.is_passed_over = not (line or has_closure) and self._is_as_before(
            tracked, optimizer, (train, in_eval)
        )
        if tracked.is_passed_over:
            return
        tracked.usual = (train, in_eval, tracked.num_backward)
        parameters = _parameters(optimizer)
        if use.steps == 0:
            self.models.discover(parameters, again=True)
            self.models.read_loaded()
            self._look_for_resume(use, parameters, has_state=bool(optimizer.state))
        use.stepped_at = line or use.stepped_at
        use.has_closure |= has_closure
        use.num_parameters = len(parameters)
        lrs = [_number(group.get("lr", math.nan)) for group in optimizer.param_groups]
        lr = max(lrs, default=math.nan)
        before = use.group_lrs + [0.0] * (len(lrs) - len(use.group_lrs))
        use.group_lrs = [max(a, b) for a, b in zip(before, lrs, strict=False)]
        tracked.row = StepRow(
            step=self.record.steps,
            optimizer=use.index,
            lr=lr,
            loss=self.last_loss,
            micro_batches=max(tracked.backward_lines.values(), default=0),
            num_with_gradient=len([p for p in parameters if p.grad is not None]),
            num_parameters=len(parameters),
            was_cleared=tracked.is_cleared or has_closure or tracked.num_backward == 0,
            in_eval_mode=in_eval > 0 and train == 0,
            passes=train + in_eval,
            clip_factor=tracked.clip_factor,
            loss_scale=self.loss_scale,
            gradient_weight=tracked.mean_weight or None,
            left_scale=None if _is_unscaled(tracked, optimizer) else self.loss_scale,
            num_written=self._written(tracked, parameters),
        )
        if is_looked_at(use.steps) and not has_closure:
            uses = [self.use_of(p) for p in parameters]
            tracked.look = read_before(optimizer, uses)
            tracked.row.gradient_rms = tracked.look.gradient_rms
            tracked.row.along_weights = tracked.look.along_weights if tracked.look.starts else None
        self._count_before(tracked, tracked.row)
        self._note_non_finite(tracked.row)

    def _is_as_before(
        self, tracked: Tracked, optimizer: torch.optim.Optimizer, passes: tuple[int, int]
    ) -> bool:
        """Whether a step is one of the many that only have to be counted."""
        step = self.record.steps
        if self._dense is None or step < self._dense or self.is_looked_at:
            return False
        return (
            is_passed_over(step)
            and tracked.usual == (*passes, tracked.num_backward)
            and passes[1] == 0
            and tracked.is_cleared
            and tracked.num_backward > 0
            and not tracked.was_cleared_after_backward
            and not tracked.cleared_lines
            and self.last_loss is not None
            and math.isfinite(self.last_loss)
            and not is_looked_at(tracked.use.steps)
            and _number(optimizer.param_groups[0].get("lr", 0.0)) > 0
        )

    def _look_for_resume(
        self, use: OptimizerUse, parameters: Sequence[Tensor], *, has_state: bool
    ) -> None:
        """Were weights loaded into its model after steps of an optimizer of the same kind?"""
        if not use.has_moments or has_state or use.state_loaded or use.replaces is not None:
            return
        shapes = self.models.loaded_later(parameters)
        for before in self.record.optimizers[: use.index]:
            is_alike = before.kind == use.kind and before.num_parameters == use.num_parameters
            if shapes and is_alike and before.steps and before.base_lr == use.base_lr:
                use.resumes = before.index

    def _note_non_finite(self, row: StepRow, *, after: bool = False) -> None:
        if self.record.first_non_finite is not None or self.loss_scale is not None:
            return  # a scaler leaves such steps out
        if after:
            is_lost = row.update_ratio is not None and not math.isfinite(row.update_ratio)
            where = "weights" if is_lost else None
        elif row.loss is not None and not math.isfinite(row.loss):
            where = "loss"
        else:
            is_lost = row.gradient_rms is not None and not math.isfinite(row.gradient_rms)
            where = "gradient" if is_lost else None
        if where is not None:
            self.record.first_non_finite = (row.step, where)

    def _count_before(self, tracked: Tracked, row: StepRow) -> None:
        use = tracked.use
        use.not_cleared += not row.was_cleared
        use.eval_steps += row.in_eval_mode
        if tracked.cleared_lines:
            line, number = tracked.cleared_lines.most_common(1)[0]
            is_same = line is not None and line in tracked.backward_lines
            if is_same and not use.has_closure:
                use.cleared_windows += 1
                use.cleared_passes = number
                use.backward_at = line or use.backward_at
        are_zero = row.gradient_rms == 0.0 and tracked.look is not None and tracked.look.are_zero
        if row.gradient_rms is not None:
            use.looks += 1
            use.zero_looks += are_zero
        if (row.num_with_gradient == 0 or are_zero) and not use.has_closure:
            use.without_gradient += 1
            use.cleared_before_step += tracked.was_cleared_after_backward
        if row.lr == 0:
            use.leading_zero_lr += use.highest_lr == 0
        elif row.lr > use.highest_lr:
            use.highest_lr = row.lr
        if row.micro_batches and self.is_looked_at:
            use.micro_batches[row.micro_batches] += 1
            use.backward_at = tracked.backward_lines.most_common(1)[0][0] or use.backward_at
        if row.micro_batches > 1 and len(use.mean_weights) < 64 and tracked.mean_weight > 0:
            use.mean_weights.append(tracked.mean_weight)
            counts = [n for n in tracked.counts if n > 0]
            if len(counts) == row.micro_batches:
                use.count_ratios.append(max(counts) / min(counts))
            if tracked.after_backward and tracked.clip_factor is None:
                now = probe_size(tracked)
                scale = self.loss_scale if tracked.is_unscaled and self.loss_scale else 1.0
                use.rescaled.append(now * scale / tracked.after_backward)

    def _written(self, tracked: Tracked, parameters: Sequence[Tensor]) -> int:
        """How many parameters were written since the last step, with the size of the changes."""
        if tracked.versions is None:
            return 0
        written = 0
        if len(tracked.versions) == len(parameters):
            now = [p._version for p in parameters]
            if now != tracked.versions:
                written = sum(a != b for a, b in zip(now, tracked.versions, strict=True))
        if tracked.probe_values is None:
            return written
        values = tracked.at_step = tracked.read_probes()
        if values == tracked.probe_values:
            return 0
        probes = tracked.probe_tensors()
        changed = 0
        if values is not None and len(values) == len(tracked.probe_values):
            for p, now_, before in zip(probes, values, tracked.probe_values, strict=True):
                if not _equal(now_, before):
                    changed += 1
                    use = self.use_of(p)
                    use.writes += 1
                    use.largest_write = max(use.largest_write, _relative(now_, before))
        # a version counter also counts writes that were undone, or that changed nothing
        return max(changed, written if changed else 0)

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """A step has ended: what moved?"""
        tracked = self.track(optimizer)
        row, use = tracked.row, tracked.use
        if tracked.is_passed_over:
            use.steps += 1
            self.record.steps += 1
            self.is_looked_at = is_looked_at(self.record.steps)
            tracked.versions = tracked.probe_values = None
            self._begin_window(tracked)
            return
        if row is None:
            return
        parameters = _parameters(optimizer)
        if tracked.look is not None:
            take_in(tracked.look, row)
            self._note_non_finite(row, after=True)
            self._look_at_state(optimizer, tracked)
            self.models.look_at_others(self._parameters)
        use.steps += 1
        self.record.steps += 1
        self.is_looked_at = is_looked_at(self.record.steps)
        if row.step < _FIRST_ROWS or row.num_written or is_looked_at(row.step):
            self._keep(row)
        if use.steps == 1:
            with_gradient = [p for p in parameters if p.grad is not None]
            tracked.probes = [weakref.ref(p) for p in _some(with_gradient or parameters)]
            tracked.probe_values = None
            self.models.release_parts()
        tracked.versions = [p._version for p in parameters]
        before, tracked.at_step = tracked.at_step, None
        tracked.probe_values = tracked.read_probes()
        if tracked.look is not None and before is not None and tracked.probe_values is not None:
            for p, a, b in zip(tracked.probe_tensors(), tracked.probe_values, before, strict=False):
                size = _relative(a, b)
                one = self.use_of(p)
                one.largest_update = max(one.largest_update, size)
        self._begin_window(tracked)

    def _begin_window(self, tracked: Tracked) -> None:
        tracked.is_cleared = tracked.was_cleared_after_backward = False
        tracked.num_backward = 0
        tracked.backward_lines.clear()
        tracked.cleared_lines.clear()
        tracked.counts.clear()
        tracked.mean_weight, tracked.after_backward = 0.0, None
        tracked.is_unscaled, tracked.clip_factor = False, None
        tracked.passes = self.models.passes()
        tracked.row = tracked.look = None
        tracked.was_stepped = True

    def _keep(self, row: StepRow) -> None:
        rows = self.record.rows
        rows.append(row)
        if row.loss is not None:
            self.record.losses.append(row.loss)
        if len(rows) > _MOST_ROWS:  # thinned behind the first ones
            self.record.rows = rows[:_FIRST_ROWS] + rows[_FIRST_ROWS::2]
            self.record.losses = (
                self.record.losses[:_FIRST_ROWS] + self.record.losses[_FIRST_ROWS::2]
            )

    def _look_at_state(self, optimizer: torch.optim.Optimizer, tracked: Tracked) -> None:
        """Does the optimizer's own count of steps grow?"""
        probes = tracked.probe_tensors()
        state = optimizer.state.get(probes[0], {}) if probes else {}
        count = _number(state.get("step", math.nan))
        if tracked.own_count is not None and count <= tracked.own_count:
            tracked.use.state_resets += 1
        tracked.own_count = count if math.isfinite(count) else None

    def scaler_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """A scaler has stepped an optimizer; if it did not, that was a skipped step."""
        tracked = self.track(optimizer)
        if not tracked.was_stepped:
            tracked.use.skipped += 1
            self._begin_window(tracked)
        tracked.was_stepped = False

    def use_of(self, parameter: Tensor) -> ParameterUse:
        """The record of a parameter that an optimizer holds."""
        use = self.known(parameter)
        use.in_optimizer = True
        return use

    def known(self, parameter: Tensor) -> ParameterUse:
        """The record of a parameter."""
        result = self._parameters.get(id(parameter))
        if result is not None and result[0]() is parameter:
            return result[1]
        use = ParameterUse(
            name=self.models.name_of(parameter),
            numel=parameter.numel() if can_be_read(parameter) else 0,
            dtype=str(parameter.dtype).removeprefix("torch."),
            trainable=parameter.requires_grad,
            is_contiguous=parameter.is_contiguous(),
        )
        self._parameters[id(parameter)] = (weakref.ref(parameter), use)
        self.record.parameters.append(use)
        return use

    def finish(self) -> None:
        """Nothing more will come: let go of what was held."""
        self._tracked.clear()
        self._owner.clear()


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer that takes the steps, where one such as that of accelerate stands around it."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if isinstance(inner, torch.optim.Optimizer) else optimizer


def probe_size(tracked: Tracked) -> float:
    """Size of the gradients of the probes."""
    total = 0.0
    for p in tracked.probe_tensors():
        if p.grad is not None and can_be_read(p.grad):
            total += float(entries(p.grad).double().abs().sum())
    return total


def _is_unscaled(tracked: Tracked, optimizer: torch.optim.Optimizer) -> bool:
    """Whether gradients were divided by the loss scale, or the optimizer does it by itself."""
    return tracked.is_unscaled or getattr(optimizer, "grad_scale", None) is not None


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _some(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The first, the largest and the last."""
    readable = [p for p in parameters if p.requires_grad and can_be_read(p)] or list(parameters)
    if not readable:
        return []
    chosen = {id(p): p for p in (readable[0], max(readable, key=Tensor.numel), readable[-1])}
    return list(chosen.values())


def _equal(now: Sequence[float], before: Sequence[float]) -> bool:
    """Whether all are the same, NaN being itself."""
    return all(a == b or (a != a and b != b) for a, b in zip(now, before, strict=True))


def _relative(now: Sequence[float], before: Sequence[float]) -> float:
    size = math.sqrt(sum(b * b for b in before))
    change = math.sqrt(sum((a - b) ** 2 for a, b in zip(now, before, strict=False)))
    return change / max(size, 1e-12)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, Tensor):
        return float(value) if value.device.type == "cpu" else math.nan
    return float(value) if isinstance(value, int | float) else math.nan
