"""Every tolerance of an event, on made-up signals just below it and just above it."""

import math

import numpy as np
import pytest

from bathyscope.recorder.detect import (
    _moved_group,
    detect,
    exploding_weights,
    gradient_spike,
    loss_spike,
    non_finite,
    stirrings,
    vanished_updates,
)
from bathyscope.recorder.event import Event
from bathyscope.recorder.history import BoundedCurve, History, Signal, band, logarithms
from bathyscope.rules import rule_of

LABELS = ("stem", "middle", "head")


def describe(steps=64, **signals):
    """A history whose signals are those given: a value, or a function of the step."""

    def at(name, step, default):
        value = signals.get(name, default)
        return value(step) if callable(value) else value

    history = History(LABELS)
    for step in range(steps):
        history.append(
            Signal(
                step=step,
                loss=at("loss", step, 1.0),
                rate=at("rate", step, 0.1),
                input_scale=at("scale", step, 1.0),
                gradients=np.array(at("gradients", step, (1.0, 1.0, 1.0)), dtype=np.float64),
                weights=np.array(at("weights", step, (1.0, 1.0, 1.0)), dtype=np.float64),
                total_gradient=at("total", step, None),
            )
        )
    return history


def last(value, before=1.0, *, steps=64, count=1):
    """A signal that is `value` in its last steps."""
    return lambda step: value if step >= steps - count else before


def wave(step):
    """Median 1 and a median deviation of 0.1, so a spread of 0.14826."""
    return 0.9 + 0.1 * (step % 3)


def waves(value):
    return lambda step: value if step == 63 else wave(step)


@pytest.mark.parametrize(
    ("loss", "changes", "is_event"),
    [
        # five spreads of the band: 0.7413 above the middle
        (waves(1.0 + 0.73), {}, False),
        (waves(1.0 + 0.75), {}, True),
        # twice the largest excess so far
        (waves(1.0 + 0.99), {"highest_excess": 0.5}, False),
        (waves(1.0 + 1.01), {"highest_excess": 0.5}, True),
        # a fraction of the loss itself
        (last(1.149), {}, False),
        (last(1.151), {}, True),
        # a fraction of the loss at the start
        (last(1.29), {"start_loss": 10.0}, False),
        (last(1.31), {"start_loss": 10.0}, True),
        # what falls is not a spike, and what is non-finite is another event
        (last(0.1), {}, False),
        (last(math.nan), {}, False),
    ],
)
def test_a_loss_spikes_above_all_that_it_has_shown(loss, changes, is_event):
    history = describe(loss=loss)
    for name, value in changes.items():
        setattr(history, name, value)
    result = loss_spike(history)
    assert (result is not None) is is_event
    if result:
        assert (result.code, result.step, result.began) == ("loss-spike", 63, "batch")
        assert result.numbers["median_before"] == pytest.approx(1.0, abs=0.11)


@pytest.mark.parametrize(("height", "times"), [(0.58, 2), (0.61, 3)])
def test_tails_that_are_heavy_ask_for_three_times_the_record(height, times):
    """One loss of the band 4 spreads (0.593) above its middle makes its tail a heavy one."""

    def loss(step, jump):
        return 1.0 + jump if step == 63 else 1.0 + height if step == 40 else wave(step)

    for jump, is_event in ((times * 0.5 - 0.01, False), (times * 0.5 + 0.01, True)):
        history = describe(loss=lambda step, jump=jump: loss(step, jump))
        history.highest_excess = 0.5
        assert (loss_spike(history) is not None) is is_event


@pytest.mark.parametrize(("steps", "is_event"), [(48, False), (49, True)])
def test_a_loss_is_judged_after_many_steps_only(steps, is_event):
    result = loss_spike(describe(steps, loss=last(9.0, steps=steps)))
    assert (result is not None) is is_event


@pytest.mark.parametrize(
    ("height", "count", "is_event"),
    [(1.99, 8, False), (2.01, 8, True), (2.01, 7, False), (2.6, 8, True)],
)
def test_a_loss_that_comes_back_by_half_of_what_was_learned_and_stays(height, count, is_event):
    """From 3 to 1, then up: half of what was learned is lost above 2, for eight steps."""
    history = describe(loss=last(height, count=count))
    history.start_loss, history.highest_excess = 3.0, 9.0  # no single step is a record
    result = loss_spike(history)
    assert (result is not None) is is_event
    if result:
        assert (result.step, result.numbers["median_before"]) == (56, 1.0)


def test_a_relapse_wants_that_something_was_learned():
    history = describe(loss=last(2.6, count=8))
    history.start_loss, history.highest_excess = 1.0, 9.0
    assert loss_spike(history) is None


@pytest.mark.parametrize(
    ("total", "highest", "is_event"),
    [
        (last(9.9), 1.0, False),  # a decade above the median
        (last(10.1), 1.0, True),
        (last(11.9), 4.0, False),  # and three times the highest of the run
        (last(12.1), 4.0, True),
        (last(0.0), 0.0, False),
        # eight spreads of a band of ±0.2 decades: 2.372
        (lambda s: 10**2.35 if s == 63 else 10 ** (0.2 * (s % 3 - 1)), 2.0, False),
        (lambda s: 10**2.39 if s == 63 else 10 ** (0.2 * (s % 3 - 1)), 2.0, True),
    ],
)
def test_a_gradient_spikes(total, highest, is_event):
    history = describe(total=total, gradients=last((1.0, 50.0, 2.0), (1.0, 1.0, 1.0)))
    history.highest_gradient = highest
    result = gradient_spike(history)
    assert (result is not None) is is_event
    if result:
        assert result.block == "middle"
        assert result.numbers["median_before"] == pytest.approx(1.0, rel=0.6)


@pytest.mark.parametrize(
    ("weights", "is_event"),
    [
        (last((1.0, 2.0, 1.0), (1.0, 1.0, 1.0)), False),
        (last((1.0, 2.01, 1.0), (1.0, 1.0, 1.0)), True),
        # a group far smaller than the others is measured by a tenth of theirs
        (last((1.0, 0.19, 1.0), (1.0, 1e-3, 1.0)), False),
        (last((1.0, 0.21, 1.0), (1.0, 1e-3, 1.0)), True),
        # ten times its start, and half as much again within the last 33 steps
        (lambda s: (1.0, 9.9 * min(1.0, 0.1 * 1.04**s), 1.0), False),
        (lambda s: (1.0, min(1.04**s, 10.5), 1.0), True),
        (lambda s: (1.0, min(1.2**s, 10.5), 1.0), False),  # it has come to rest
        (last((1.0, 0.1, 1.0), (1.0, 1.0, 1.0)), False),
        ((0.0, 0.0, 0.0), False),
    ],
)
def test_exploding_weights(weights, is_event):
    result = exploding_weights(describe(weights=weights))
    assert (result is not None) is is_event
    if result:
        assert (result.block, result.began) == ("middle", "middle")


def test_a_group_that_runs_away_after_the_rate_jumped_began_there():
    grown = last((1.0, 3.0, 1.0), (1.0, 1.0, 1.0))
    result = exploding_weights(describe(weights=grown, rate=last(1.0, 0.1, count=2)))
    assert (result.block, result.began) == ("middle", "learning rate")


@pytest.mark.parametrize(
    ("gradients", "changes", "group"),
    [
        (last((1e-7, 1e-6, 1.0), (1.0, 1.0, 1.0), count=8), {}, "middle"),
        (last((1e-7, 1.1e-6, 1.0), (1.0, 1.0, 1.0), count=8), {}, "stem"),
        (last((0.0, 1.0, 1.0), (1.0, 1.0, 1.0), count=7), {}, None),
        (last((-1.0, 1.0, 1.0), (1.0, 1.0, 1.0), count=8), {}, None),  # it has none: frozen
        ((0.0, 1.0, 1.0), {}, None),  # never had one
        (last((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), count=8), {}, "head"),
        # all of them where the loss is fitted: nothing is left to learn
        (last((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), count=8), {"start_loss": 20.1}, None),
        (last((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), count=8), {"start_loss": 19.9}, "head"),
        (last((0.0, 0.0, 1.0), (1.0, 1.0, 1.0), count=8), {"start_loss": 99.0}, "middle"),
    ],
)
def test_vanished_updates_for_eight_steps(gradients, changes, group):
    history = describe(gradients=gradients)
    for name, value in changes.items():
        setattr(history, name, value)
    result = vanished_updates(history)
    assert (result and result.began) == group
    if result:
        assert result.step == 56


@pytest.mark.parametrize(("steps", "is_event"), [(23, False), (24, True)])
def test_updates_are_judged_after_three_times_as_many_steps(steps, is_event):
    dead = last((1.0, 0.0, 1.0), (1.0, 1.0, 1.0), steps=steps, count=8)
    assert (vanished_updates(describe(steps, gradients=dead)) is not None) is is_event


@pytest.mark.parametrize(("rate", "is_event"), [(0.0, True), (0.9e-7, True), (1.1e-7, False)])
def test_a_rate_that_became_nothing(rate, is_event):
    result = vanished_updates(describe(rate=last(rate, 0.1, count=8)))
    assert (result is not None) is is_event
    if result:
        assert (result.began, result.step) == ("learning rate", 56)
    assert vanished_updates(describe(rate=last(rate, 0.1, count=7))) is None


LOST = math.nan


@pytest.mark.parametrize(
    ("signals", "location", "began"),
    [
        ({}, None, None),
        ({}, "middle", "middle"),
        ({"loss": last(math.inf)}, None, "loss"),
        ({"loss": last(LOST)}, None, "loss"),
        ({"loss": LOST}, None, None),  # no loss was ever seen
        ({"total": last(math.inf)}, None, "loss"),
        # gradients run back: the last group is where it began; weights after a finite loss and gradient
        # are the optimizer's work
        ({"gradients": last((LOST, LOST, 1.0), (1.0, 1.0, 1.0))}, None, "middle"),
        ({"weights": last((1.0, LOST, LOST), (1.0, 1.0, 1.0))}, None, "update"),
        ({"gradients": last((LOST, LOST, LOST), (1.0, 1.0, 1.0))}, None, "loss"),
        ({"weights": last((LOST, LOST, LOST), (1.0, 1.0, 1.0))}, None, "update"),
        ({"gradients": last((LOST, 1.0, 1.0), (1.0, 1.0, 1.0))}, "head", "head"),
    ],
)
def test_where_a_value_was_first_non_finite(signals, location, began):
    result = non_finite(describe(**signals), location=location)
    assert (result and result.began) == began
    events = list(detect(describe(**signals), location=location))
    assert [e.code for e in events] == (["non-finite"] if began else [])
    if result and "gradients" in signals:
        lost = sum(map(math.isnan, signals["gradients"](63)))
        assert result.numbers["groups_with_such_gradients"] == lost
    if result and "weights" in signals:
        lost = sum(map(math.isnan, signals["weights"](63)))
        assert result.numbers["groups_with_such_weights"] == lost


@pytest.mark.parametrize(("steps", "is_event"), [(16, False), (17, True)])
def test_the_first_steps_are_not_judged(steps, is_event):
    jumped = last((1.0, 9.0, 1.0), (1.0, 1.0, 1.0), steps=steps)
    assert bool(list(detect(describe(steps, weights=jumped)))) is is_event
    assert list(detect(describe(steps, loss=last(math.inf, steps=steps))))  # but for this


@pytest.mark.parametrize(
    ("signals", "began"),
    [
        ({"rate": last(0.14, 0.1)}, "batch"),  # 0.15 decades are a factor of 1.41
        ({"rate": last(0.143, 0.1)}, "learning rate"),
        ({"rate": last(0.3, 0.1, count=5)}, "learning rate"),
        ({"rate": last(0.01, 0.1)}, "batch"),  # a rate that fell is not a cause
        ({"scale": last(1.9)}, "batch"),  # 0.3 decades are a factor of 2
        ({"scale": last(2.1)}, "input"),
        ({"scale": last(2.1, count=2)}, "batch"),  # an earlier input is not that of this step
        ({"rate": last(0.3, 0.1), "scale": last(9.0)}, "learning rate"),
        # weights that moved by more than 0.05 decades, a factor of 1.122
        ({"weights": last((1.0, 1.11, 1.0), (1.0, 1.0, 1.0), count=3)}, "batch"),
        ({"weights": last((1.0, 1.13, 1.0), (1.0, 1.0, 1.0), count=3)}, "middle"),
        ({"weights": last((0.5, 1.13, 1.0), (1.0, 1.0, 1.0), count=3)}, "stem"),
        # a gradient a decade above its band in an earlier step
        ({"gradients": last((1.0, 1.0, 9.0), (1.0, 1.0, 1.0), count=3)}, "batch"),
        ({"gradients": last((1.0, 1.0, 11.0), (1.0, 1.0, 1.0), count=3)}, "head"),
        ({"gradients": last((1.0, 1.0, 11.0), (1.0, 1.0, 1.0), count=1)}, "batch"),
    ],
)
def test_where_a_spike_of_the_loss_began(signals, began):
    assert loss_spike(describe(loss=last(9.0), **signals)).began == began


def test_what_stirred_before_is_told_in_order():
    history = describe(
        rate=last(1.0, 0.1, count=6),
        scale=last(4.0, count=2),
        total=last(5.0, count=4),
        weights=last((1.0, 2.0, 1.0), (1.0, 1.0, 1.0), count=3),
    )
    assert stirrings(history, until=63) == (
        "step 58: learning rate 1 after 0.1",
        "step 60: gradient norm 5 after 1",
        "step 61: weights of middle 2 after 1",
        "step 62: input's scale 4 after 1",
    )
    assert stirrings(describe(total=last(3.1)), until=63) == ()  # half a decade is a factor of 3.16
    assert len(stirrings(describe(total=last(3.2)), until=63)) == 1
    assert stirrings(history, until=50) == ()


def test_a_band_is_the_median_and_a_robust_deviation():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, math.nan, math.inf])
    result = band(values)
    assert result.middle == 4.5
    assert result.spread == pytest.approx(1.4826 * 2.0)
    assert result.excess(6.0) == 1.5
    assert band(values[1:]) is None  # seven finite ones are too few
    assert np.isnan(logarithms(np.array([0.0, -1.0]))).all()
    assert logarithms(np.array([100.0])).tolist() == [2.0]


def test_the_ring_keeps_the_last_steps_and_what_the_run_has_shown():
    history = describe(70, loss=lambda s: 10.0 if s < 3 else 2.0 if s < 5 else 1.0)
    assert history.steps.tolist() == list(range(6, 70))
    assert history.start_loss == 10.0  # the median of the first five
    assert len(history.losses) == 64
    history.accept()
    assert (history.highest_excess, history.highest_gradient) == (0.0, pytest.approx(3**0.5))
    history = describe(loss=last(4.0), total=last(7.0))
    history.accept()
    assert (history.highest_excess, history.highest_gradient) == (3.0, 7.0)
    lost = describe(loss=last(math.inf), total=last(math.nan))
    lost.accept()
    assert (lost.highest_excess, lost.highest_gradient) == (0.0, 0.0)


def test_groups_without_a_gradient_do_not_count_in_its_norm():
    none = np.zeros(3)
    some = Signal(
        step=0,
        loss=1.0,
        rate=0.1,
        input_scale=1.0,
        gradients=np.array([3.0, -1.0, 4.0]),
        weights=none,
    )
    assert some.gradient == 5.0


def test_a_curve_has_at_most_so_many_points_and_its_first():
    curve, none = BoundedCurve(most=8), np.zeros(0)
    for step in range(100):
        curve.append(
            Signal(
                step=step, loss=float(step), rate=0.5, input_scale=1.0, gradients=none, weights=none
            )
        )
        assert len(curve.steps) <= 8
        assert curve.steps[0] == 0
    assert curve.steps.tolist() == list(range(0, 100, 16))
    assert curve.values[:, 0].tolist() == curve.steps.tolist()
    assert set(curve.values[:, 2].tolist()) == {0.5}
    assert curve.num_bytes == 9 * 4 + 9 * 3 * 4


def test_an_event_survives_json_with_numbers_that_are_non_finite():
    event = Event(
        code="non-finite",
        step=3,
        began="input",
        block="middle",
        before=("a", "b"),
        numbers={"loss": math.inf, "low": -math.inf, "n": 2, "name": "x", "none": None},
    )
    assert Event.from_json(event.to_json()) == event
    for broken in ({"code": "other"}, {"step": "3"}, {"began": None}):
        assert Event.from_json(event.to_json() | broken) is None
    odd = Event.from_json(event.to_json() | {"block": 3, "before": "a", "numbers": [1]})
    assert (odd.block, odd.before, odd.numbers) == (None, (), {})


def test_advice_is_about_the_place_where_that_is_no_block():
    assert (
        "warm it up towards"
        in Event(code="collapsed-representation", step=1, began="learning rate").advice
    )
    assert (
        Event(code="collapsed-representation", step=1, began="stem").advice
        == rule_of("collapsed-representation").event.advice
    )
    assert Event(code="collapsed-representation", step=1, began="stem").sentence.endswith(
        "began at block stem."
    )
    assert Event(code="collapsed-representation", step=1, began="loss").sentence.endswith(
        "began at the loss."
    )


def test_the_group_that_grew_most_is_named_and_not_the_largest():
    before, after = (1.0, 5.0, 50.0), (2.5, 20.0, 120.0)  # 2.5, 4 and 2.4 times as large
    assert exploding_weights(describe(weights=last(after, before))).block == "middle"
    spike = describe(total=last(99.0), gradients=last((30.0, 40.0, 500.0), (1.0, 1.0, 100.0)))
    spike.highest_gradient = 1.0
    assert gradient_spike(spike).block == "middle"


def test_growth_is_measured_from_the_first_step():
    history = describe(weights=lambda s: (1.0, 9.0, 1.0) if s == 1 else (1.0, 1.0, 1.0))
    assert history.start_weights.tolist() == [1.0, 1.0, 1.0]


def test_the_last_loss_tells_whether_it_is_fitted():
    dead = last((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), count=8)
    fitted = describe(gradients=dead, loss=last(0.04, 1.0))
    assert vanished_updates(fitted) is None
    assert vanished_updates(describe(gradients=dead, loss=last(1.0, 0.04))) is not None


@pytest.mark.parametrize(("jump", "group"), [(0.25, 1), (0.15, None)])
def test_a_group_has_moved_where_it_moves_ten_times_its_usual_way(jump, group):
    """In decades: the middle one moves by 0.02 at every step, and by `jump` more at the last."""

    def weights(step):
        return 1.0, 10 ** (0.02 * (step % 2) + (jump if step == 63 else 0.0)), 1.0

    assert _moved_group(describe(weights=weights), before=63) == group


@pytest.mark.parametrize(("jump", "group"), [(0.06, 1), (0.04, None)])
def test_a_group_that_stood_still_has_to_move_by_a_twentieth_of_a_decade(jump, group):
    weights = last((1.0, 10**jump, 1.0), (1.0, 1.0, 1.0))
    assert _moved_group(describe(weights=weights), before=63) == group
