import itertools

import pandas as pd

from bathyscope.papers.nests.studies import convolutional
from tests.papers.judged import passed, quick


def endings(aresnest):
    """Two seeds of every network; the last A-ResNEst ends at the loss that is given."""
    table = pd.DataFrame(
        list(itertools.product(convolutional.NETWORKS, convolutional.FORMS, range(2))),
        columns=["network", "form", "seed"],
    ).assign(test_error=30.0, train_loss=1.0)
    table.loc[len(table) - 1, "train_loss"] = aresnest
    return table


def test_an_augmented_form_at_a_greater_loss_in_one_seed_is_not_met():
    preset = quick("nests.convolutional")
    assert passed(convolutional.checks(endings(0.5), preset)) == [True, True]
    result = convolutional.checks(endings(1.5), preset)
    assert passed(result) == [True, False]
    assert result[1].text == "7 of 8"
