import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.core.stepping import copy_training, train_over
from bathyscope.foresight import look_ahead
from tests.support.model_state import assert_same, state_of
from tests.support.small_trainings import batches, network


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_stages_are_those_of_a_plain_loop(kind):
    model = network()
    optimizer = (
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if kind == "sgd"
        else torch.optim.Adam(model.parameters(), lr=0.01)
    )
    before = state_of(model)
    twin, stepper = copy_training(model, optimizer)
    seen = {
        s.step: (copy.deepcopy(s.model.state_dict()), s.losses)
        for s in look_ahead(twin, stepper, batches(5), loss=F.cross_entropy, at=(0, 2, 5))
    }
    assert_same(before, state_of(model))
    assert sorted(seen) == [0, 2, 5]

    losses = []
    for step, (x, y) in enumerate(batches(5), 1):  # the reference: the user's own loop
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in seen:
            weights, course = seen[step]
            assert course == tuple(losses)
            assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())


def test_the_optimizers_state_is_taken_along():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train_over(model, optimizer, batches(3), loss=F.cross_entropy)
    twin, stepper = copy_training(model, optimizer)
    ahead = train_over(twin, stepper, batches(3), loss=F.cross_entropy)
    assert ahead == train_over(model, optimizer, batches(3), loss=F.cross_entropy)


def test_a_loss_that_is_non_finite_ends_it_with_a_stage():
    model = network()
    with torch.no_grad():
        model[3].weight.fill_(float("nan"))
    twin, stepper = copy_training(model, None)
    stages = list(look_ahead(twin, stepper, batches(8), loss=F.cross_entropy, at=(0, 4, 8)))
    assert [s.step for s in stages] == [0, 1]


def test_no_step_is_taken_beyond_the_last_stage():
    model = network()
    twin, stepper = copy_training(model, None)
    endless = iter(batches(8))
    list(look_ahead(twin, stepper, endless, loss=F.cross_entropy, at=(2,)))
    assert len(list(endless)) >= 5  # one more batch may have been fetched, no more


def test_a_model_that_cannot_be_copied_says_so():
    class Held(nn.Linear):
        def __deepcopy__(self, memo):
            raise TypeError("it holds a socket")

    with pytest.raises(UsageError, match="Held cannot be copied for a look-ahead: it holds a"):
        copy_training(Held(2, 2), None)
