import torch
import torch.nn.functional as F

from bathyscope import measure, nets
from bathyscope.core.records import Block
from bathyscope.measure import rows as later
from bathyscope.measure.rows import Later

BLOCK = Block(index=0, name="0", end="0", kind="")


def test_small_tensors_are_copied_and_handed_over_together():
    handed = []
    kept = Later(handed.append)
    x = torch.ones(3)
    kept.add(BLOCK, x)
    kept.add(BLOCK, 2 * x)
    x.zero_()
    assert handed == []
    kept.flush()
    kept.flush()
    assert [[one.tensor.tolist() for one in seen] for seen in handed] == [[[1.0] * 3, [2.0] * 3]]


def test_a_large_tensor_is_handed_over_at_once_and_many_small_ones_before_they_are_too_many():
    handed = []
    kept = Later(lambda seen: handed.append(len(seen)))
    kept.add(BLOCK, torch.ones(3))
    kept.add(BLOCK, torch.ones(later._SMALL + 1))
    assert handed == [1]
    for _ in range(later._MOST // later._SMALL):
        kept.add(BLOCK, torch.ones(later._SMALL))
    assert handed == [1, later._MOST // later._SMALL + 1]
    assert kept.entries == 0


def test_measured_together_or_one_by_one_is_the_same(monkeypatch):
    torch.manual_seed(0)
    model = nets.build("resnet-20", num_classes=4)
    batch = torch.randn(8, 3, 8, 8), torch.arange(8) % 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def columns():
        result = measure.standard(model, batch, loss=F.cross_entropy, optimizer=optimizer)
        return {
            (name, column): values
            for name, measured in result.items()
            for column, values in measured.columns.items()
        }

    together = columns()
    monkeypatch.setattr(later, "_SMALL", 0)
    monkeypatch.setattr("bathyscope.linalg.conditioning._SMALL", 0)
    alone = columns()
    assert together.keys() == alone.keys()
    for key, values in alone.items():
        for ours, theirs in zip(together[key], values, strict=True):
            if isinstance(theirs, float):
                # a Gram matrix in float32 decides a condition number to 1e-2
                torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-6, msg=str(key))
            else:
                assert ours == theirs, key
