"""Parameter counts, exactly: each from building the layers by hand or from a published count."""

import pytest

from bathyscope import nets

_VIT = {"image_size": 224, "patch": 16, "num_classes": 1000}
_BERT = {"vocabulary": 30522, "context": 512}
COUNTS = [
    ("resnet-164", {}, 2_602_906),
    ("resnet-164", {"shortcut": "B"}, 2_605_658),
    ("plain-164", {}, 2_602_906),
    ("resnext-164", {}, 2_475_354),
    ("preresnet-164", {"shortcut_norm": False}, 1_703_290),
    ("preresnet-164", {}, 1_703_706),
    ("preresnet-1001", {}, 10_328_154),
    ("procresnet-166", {}, 1_715_018),
    ("procresnet-274", {}, 2_827_850),
    ("procresnet-1003", {}, 10_339_466),
    ("preresnet-164", {"num_classes": 100}, 1_726_836),
    ("preresnet-1001", {"num_classes": 100}, 10_351_284),
    ("procresnet-166", {"num_classes": 100}, 1_738_148),
    ("procresnet-1003", {"num_classes": 100}, 10_362_596),
    ("wrn-28-10", {}, 36_479_194),
    ("wrn-16-8", {}, 10_961_370),
    ("nests-wrn-16-8", {}, 11_091_594),
    ("nests-wrn-40-4", {}, 8_977_226),
    ("wrn-40-4", {"wide_stem": True}, 8_977_226),
    ("prebasic-110", {}, 1_730_522),
    ("prebasic-20", {}, 272_282),
    ("imagenet-resnet-101", {}, 44_549_160),
    ("imagenet-resnext-101", {}, 44_177_704),
    ("imagenet-resnet-18", {}, 11_689_512),
    ("imagenet-resnet-34", {}, 21_797_672),
    ("imagenet-resnet-50", {}, 25_557_032),
    ("imagenet-resnet-152", {}, 60_192_808),
    ("imagenet-resnext-50", {}, 25_028_904),
    ("densenet-100", {}, 769_162),
    # published: GPT-2 small and medium, ViT-Ti/16 and ViT-B/16, BERT base with its segments left out
    ("gpt-12", {"vocabulary": 50257, "context": 1024, "width": 768, "heads": 12}, 124_439_808),
    ("gpt-24", {"vocabulary": 50257, "context": 1024, "width": 1024, "heads": 16}, 354_823_168),
    ("vit-12", _VIT | {"width": 192, "heads": 3}, 5_717_416),
    ("vit-12", _VIT | {"width": 768, "heads": 12}, 86_567_656),
    ("bert-12", _BERT | {"width": 768, "heads": 12}, 109_514_298 - 2 * 768),
    # closed forms: layers × width², paths × layers × width²
    ("linear-plain-20", {"width": 7}, 20 * 49),
    ("linear-residual-20", {"width": 7}, 20 * 49),
    ("linear-aggregated-20", {"width": 7, "paths": 3}, 3 * 20 * 49),
    ("nshortcut-5-3", {"width": 10}, 5 * 3 * 100),
    ("nshortcut-5-2", {"width": 10, "bias": True}, 5 * (2 * 100 + 10)),
]


@pytest.mark.parametrize(("name", "options", "count"), COUNTS)
def test_exact_count(name, options, count):
    assert _count(nets.skeleton(name, **options)) == count


def test_a_built_network_has_what_its_skeleton_has():
    built = nets.build("resnext-20").state_dict()
    bare = nets.skeleton("resnext-20").state_dict()
    assert {k: v.shape for k, v in built.items()} == {k: v.shape for k, v in bare.items()}


@pytest.mark.parametrize("name", [n for n in nets.names() if n.endswith("-erased")])
def test_erasing_a_relu_changes_no_count(name):
    assert _count(nets.skeleton(name)) == _count(nets.skeleton(name.removesuffix("-erased")))


def test_shortcut_length_varies_at_a_fixed_count():
    for shortcut in ("A", "B"):
        counts = {
            _count(nets.skeleton(f"convshortcut-38-{n}", shortcut=shortcut))
            for n in (1, 2, 3, 4, 6, 12)
        }
        assert len(counts) == 1


def _count(network):
    return sum(parameter.numel() for parameter in network.parameters())
