from itertools import pairwise

import pytest
import torch
from torch import nn

from bathyscope.core import UnknownName, UsageError, blocks_of, calls, drop_branch
from tests.core import lookalikes as like

IMAGE = torch.randn(2, 3, 8, 8)


def names(model, example, **options):
    return [b.label for b in blocks_of(model, example, **options)]


def test_torchvision_like_resnet():
    result = blocks_of(like.TorchvisionLike(), IMAGE)
    assert [b.name for b in result] == ["layer1.0", "layer1.1", "layer2.0", "layer2.1"]
    assert [b.changes_dimension for b in result] == [False, False, True, False]
    assert result.how == "body"
    assert [b.droppable for b in result] == [True, True, False, True]
    for one, next_ in pairwise(result):
        assert one.out_shape == next_.in_shape


def test_stem_and_head_are_around_the_trunk():
    result = blocks_of(like.TorchvisionLike(), IMAGE)
    assert [(b.label, b.part, b.index) for b in result.around] == [
        ("conv1", "stem", -1),
        ("fc", "head", 4),
    ]
    assert [b.index for b in result.rows] == [-1, 0, 1, 2, 3, 4]
    assert not any(b.droppable for b in result.around)


def test_a_head_in_a_container_is_taken_layer_by_layer_with_what_follows():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x):
            return x + self.inner(x).relu()

    head = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 2), nn.Softmax(-1))
    model = nn.Sequential(nn.Embedding(9, 6), Block(), Block(), Block(), head)
    result = blocks_of(model, torch.randint(9, (4, 3)))
    assert [b.label for b in result] == ["1", "2", "3"]
    assert [(b.name, b.end) for b in result.around] == [("0", "0"), ("4.0", "4.2"), ("4.3", "4.3")]
    assert blocks_of(model, torch.randint(9, (4, 3)), blocks=["1", "3"]).around[0].label == "0"


def test_a_chain_has_nothing_around_it():
    mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    assert blocks_of(mlp, torch.zeros(2, 4)).around == ()


def test_densenet_like_takes_transitions_between_dense_blocks():
    assert names(like.DenseNetLike(), IMAGE) == [
        "features.denseblock1",
        "features.transition1",
        "features.denseblock2",
    ]


def test_two_parts_of_a_block_are_no_blocks_but_two_blocks_of_a_stage_are():
    assert names(like.MixerLike(), torch.randn(2, 5, 8)) == ["blocks.0", "blocks.1", "blocks.2"]
    assert names(like.StagesLike(), IMAGE) == [
        f"stages.{i}.{name}" for i in range(2) for name in ("first", "second")
    ]


@pytest.mark.parametrize("ending", ["module", "function", "in place"])
@pytest.mark.parametrize("units", [2, 3, 4])
def test_equal_units_whose_sum_has_an_activation_are_one_block(ending, units):
    model = like.UnitsLike(ending, units=units)
    assert names(model, torch.randn(2, 8)) == ["blocks.0", "blocks.1", "blocks.2"]


def test_layers_of_stages_that_end_in_a_pooling_are_the_blocks():
    model = nn.Sequential(*[like.PoolingStage(3) for _ in range(3)], nn.Flatten(), nn.Linear(3, 2))
    assert names(model, IMAGE) == [f"{i}.layers.{j}" for i in range(3) for j in range(3)]


def test_hugging_face_like_with_keyword_inputs_and_tuple_outputs():
    example = {"input_ids": torch.randint(11, (2, 5))}
    result = blocks_of(like.HuggingFaceLike(), example)
    assert [b.name for b in result] == ["layer.0", "layer.1", "layer.2"]
    assert result[0].in_shape == result[0].out_shape == (2, 5, 8)


def test_transformer_encoder_in_both_modes():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3)
    for model in (encoder.train(), encoder.eval()):
        assert names(model, torch.randn(2, 5, 16)) == ["layers.0", "layers.1", "layers.2"]


def test_mlp_layers_carry_what_follows_them():
    mlp = nn.Sequential(
        nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(True), nn.Linear(8, 2)
    )
    result = blocks_of(mlp, torch.randn(3, 4))
    assert [(b.name, b.end) for b in result] == [("1", "3"), ("4", "4")]
    assert result[0].num_parameters == 4 * 8 + 8
    assert result.how == "body"


def test_an_activation_shared_by_the_layers_of_a_chain_ends_the_first_block_only():
    shared = nn.ReLU()
    mlp = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 2))
    assert [b.end for b in blocks_of(mlp, torch.randn(3, 4))] == ["1", "2", "4"]


def test_nested_sequentials_are_one_chain():
    stage = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)]
    assert names(nn.Sequential(nn.Sequential(*stage), nn.Linear(4, 2)), torch.randn(3, 4)) == [
        "0.0.0",
        "0.1.0",
        "0.2.0",
        "1",
    ]


def test_leaves_are_the_last_resort_and_it_says_so():
    result = blocks_of(like.HandWritten(), torch.randn(3, 6))
    assert [b.name for b in result] == ["a", "b", "c"]
    assert result.how == "leaves"
    assert "blocks=" in result.note


def test_leaves_carry_what_follows_them_in_their_sequential():
    result = blocks_of(like.ListOfSequentials(2), torch.randn(2, 1, 8, 8))
    assert [(b.name, b.end) for b in result] == [
        ("stem", "stem"),
        ("layers.0.0", "layers.0.2"),
        ("layers.1.0", "layers.1.2"),
        ("head", "head"),
    ]
    assert result.how == "leaves"
    shared = nn.ReLU()  # ends the first block only: its calls are not those of the layers
    result = blocks_of(
        like.ListOfSequentials(2, activation=lambda: shared), torch.randn(2, 1, 8, 8)
    )
    assert [b.end for b in result] == ["stem", "layers.0.2", "layers.1.1", "head"]


def test_blocks_skipped_in_training_are_found():
    model = like.StochasticDepth()
    assert len(blocks_of(model, IMAGE)) == 4
    assert model.training


def test_shared_module_counts_once_a_call():
    assert names(like.SharedTwice(), IMAGE) == ["block", "other", "block[1]"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(dtype):
    assert len(blocks_of(like.TorchvisionLike().to(dtype), IMAGE.to(dtype))) == 4


def test_wrapped_models_are_looked_through():
    model = like.TorchvisionLike()
    expected = names(model, IMAGE)
    assert names(nn.DataParallel(model), IMAGE) == expected
    assert names(torch.compile(model), IMAGE) == expected


def test_frozen_and_unused_parameters_do_not_matter():
    model = like.TorchvisionLike().requires_grad_(False)
    model.unused = nn.Linear(100, 100)
    assert len(blocks_of(model, IMAGE)) == 4


def test_stages_give_way_to_the_blocks_inside():
    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(*[like.BasicBlock(3, 3) for _ in range(3)])

        def forward(self, x):
            return self.body(x)

    assert len(blocks_of(nn.Sequential(Stage(), Stage()), IMAGE)) == 6


def test_given_names_and_globs():
    model = like.TorchvisionLike()
    assert names(model, IMAGE, blocks=["layer1", "layer2"]) == ["layer1", "layer2"]
    assert names(model, IMAGE, blocks="layer?.1") == ["layer1.1", "layer2.1"]
    assert blocks_of(model, IMAGE, blocks="layer1").how == "given"
    with pytest.raises(UnknownName, match=r"layre1.*layer1"):
        blocks_of(model, IMAGE, blocks=["layre1"])


def test_tuple_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = like.TorchvisionLike()

        def forward(self, a, b):
            return self.net(a + b)

    assert len(blocks_of(Two(), (IMAGE, IMAGE))) == 4


def test_nothing_to_find():
    with pytest.raises(UsageError, match="no parameters"):
        blocks_of(nn.ReLU(), IMAGE)
    with pytest.raises(UsageError, match="cannot take"):
        blocks_of(like.TorchvisionLike(), torch.randn(2, 7))


def test_dropping_a_block_passes_its_input_on():
    model = like.TorchvisionLike().eval()
    block = blocks_of(model, IMAGE)[1]
    full = model(IMAGE)
    with drop_branch(model, block):
        without = model(IMAGE)
    kept = model.layer1[1]
    model.layer1[1] = nn.Identity()
    torch.testing.assert_close(without, model(IMAGE), rtol=0, atol=0)
    model.layer1[1] = kept
    torch.testing.assert_close(model(IMAGE), full, rtol=0, atol=0)
    with (
        pytest.raises(UsageError, match="cannot be dropped"),
        drop_branch(model, blocks_of(model, IMAGE)[2]),
    ):
        pass


def test_dropping_a_block_with_a_tuple_output_and_the_second_call_of_a_shared_one():
    model = like.HuggingFaceLike().eval()
    example = {"input_ids": torch.randint(11, (2, 5))}
    with drop_branch(model, blocks_of(model, example)[1]):
        without = model(**example).logits
    model.layer = nn.ModuleList([model.layer[0], model.layer[2]])
    torch.testing.assert_close(without, model(**example).logits, rtol=0, atol=0)

    shared = like.SharedTwice().eval()
    with drop_branch(shared, blocks_of(shared, IMAGE)[2]):
        without = shared(IMAGE)
    expected = shared.head(shared.other(shared.block(IMAGE)).mean((2, 3)))
    torch.testing.assert_close(without, expected, rtol=0, atol=0)


class Routed(nn.Module):
    """Experts that are called only where a sample wants them: the last is wanted by late samples."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        wanted = x[:, 0].long()
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            if bool((wanted == i).any()):
                out = out + expert(x) * (wanted == i).unsqueeze(1)
        return self.head(out)


class Lopsided(nn.Module):
    """A hidden axis as long as the few samples are many, and one that holds samples and tokens."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, calls._FEW)
        self.second = nn.Linear(calls._FEW, 3)

    def forward(self, x):
        return self.second(self.first(x).reshape(-1, calls._FEW)).view(len(x), -1)


def numbered():
    x = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
    x[:, 0] = torch.arange(32) // 11
    return x


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (like.TorchvisionLike(), torch.randn(32, 3, 8, 8)),
        (nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)), numbered()),
        (nn.LSTM(6, 4, num_layers=2), torch.randn(30, 3, 6)),
        (Routed(), numbered()),
        (Lopsided(), torch.randn(40, 7, 4)),
    ],
    ids=["images", "chain", "time first", "experts", "lopsided"],
)
def test_calls_seen_on_a_few_samples_are_those_of_the_whole_batch(model, inputs):
    def result(outcome):
        return [(c.name, c.number, c.order, c.in_shape, c.out_shape) for c in outcome]

    assert result(calls.calls_of_few(model, inputs)) == result(calls.calls_of(model, inputs))


def test_a_large_batch_is_not_run_to_see_which_modules_are_called():
    seen = []
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))
    model.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    assert blocks_of(model, numbered())[0].in_shape == (32, 6)
    assert seen == [calls._FEW]


def test_a_model_of_one_size_of_batch_is_run_on_the_whole():
    class Fixed(nn.Sequential):
        def forward(self, x):
            return super().forward(x.reshape(32, 6))

    result = blocks_of(Fixed(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), numbered())
    assert [b.in_shape for b in result] == [(32, 6), (32, 8)]


def test_of_two_kinds_side_by_side_the_trunk_is_the_one_with_more_layers():
    class Small(nn.Sequential):
        pass

    class Large(nn.Sequential):
        pass

    def small():
        return Small(nn.Linear(4, 4), nn.ReLU())

    def large():
        return Large(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    kinds = [[small(), small()], [large(), large(), large()]]
    for order in (kinds, kinds[::-1]):
        model = nn.Sequential(*order[0], *order[1])
        expected = [name for name, child in model.named_children() if isinstance(child, Large)]
        assert names(model, torch.randn(2, 4)) == expected


def test_the_weighted_layers_of_a_block_hold_a_matrix_or_a_kernel():
    from bathyscope.core.calls import weighted_layers

    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()) for _ in range(3))
    )
    blocks = blocks_of(model, torch.randn(5, 4))
    assert list(weighted_layers(model, blocks[0])) == ["0.0"]
