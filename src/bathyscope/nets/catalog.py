"""Every family of networks, by name."""

from dataclasses import replace

from bathyscope.nets.depth import Arithmetic, OneOf
from bathyscope.nets.family import Family, Theme
from bathyscope.nets.samples import Images, Vectors
from bathyscope.nets.transformer_block import Options

_IMAGENET_DEPTHS = (18, 34, 50, 101, 152)
_LARGE_IMAGES = Images(num_classes=1000)

# fmt: off
_FAMILIES: dict[Theme, tuple[Family, ...]] = {
    "singularity": (
        Family("plain-N", Arithmetic(6, 2), "resnet.plain", "plain-20", "resnet without its skips"),
        Family("resnet-N", Arithmetic(6, 2), "resnet.resnet", "resnet-20",
            "basic blocks, post-activation, option A or B shortcuts"),
        Family("resnext-N", Arithmetic(9, 2), "resnext.resnext", "resnext-20",
            "bottlenecks in groups, cardinality 4 × 8d"),
        Family("highway-N", Arithmetic(6, 2), "resnet.highway", "highway-20",
            "resnet with transform and carry gates, coupled or not"),
        Family("diracnet-N", Arithmetic(6, 2), "resnet.diracnet", "diracnet-20",
            "plain with weights diag(a) I + W"),
        Family("densenet-N", Arithmetic(6, 4), "densenet.densenet", "densenet-22",
            "DenseNet-BC, every layer's features set beside all before"),
        Family("imagenet-plain-D", OneOf(_IMAGENET_DEPTHS), "imagenet.imagenet_plain", "imagenet-plain-18",
            "imagenet-resnet without its skips", shared=_LARGE_IMAGES),
        Family("imagenet-resnet-D", OneOf(_IMAGENET_DEPTHS), "imagenet.imagenet_resnet",
            "imagenet-resnet-18", "residual network for large images, 1000 classes", shared=_LARGE_IMAGES),
        Family("imagenet-resnext-D", OneOf(_IMAGENET_DEPTHS[2:]), "imagenet.imagenet_resnext",
            "imagenet-resnext-50", "ResNeXt 32 × 4d for large images, 1000 classes", shared=_LARGE_IMAGES),
        Family("linear-plain-N", Arithmetic(2), "linear.linear_plain", "linear-plain-20",
            "linear layers on vectors, blocks of two, no skips", init="xavier", shared=Vectors()),
        Family("linear-residual-N", Arithmetic(2), "linear.linear_residual", "linear-residual-20",
            "linear-plain with an identity around each block", init="xavier", shared=Vectors()),
        Family("linear-aggregated-N", Arithmetic(2), "linear.linear_aggregated", "linear-aggregated-20",
            "linear-residual with the sum of several paths in a block", init="xavier", shared=Vectors()),
    ),
    "nests": (
        Family("prebasic-N", Arithmetic(6, 2), "preresnet.prebasic", "prebasic-20",
            "basic blocks, pre-activation"),
        Family("wrn-D-K", Arithmetic(6, 4), "preresnet.wrn", "wrn-16-2",
            "wide ResNet, K times the channels, the usual form"),
        Family("nests-wrn-D-K", Arithmetic(6, 4), "preresnet.nests_wrn", "nests-wrn-16-2",
            "wrn whose stem is as wide as its first stage"),
        Family("resnest-N", Arithmetic(6, 2), "nest_conv.resnest", "resnest-20",
            "prebasic without nonlinearity at its last representation"),
        Family("resnest-wrn-D-K", Arithmetic(6, 4), "nest_conv.resnest", "resnest-wrn-16-2",
            "nests-wrn without nonlinearity at its last representation"),
        Family("bnresnest-N", Arithmetic(6, 2), "nest_conv.bnresnest", "bnresnest-20",
            "resnest with batch normalization before its head"),
        Family("bnresnest-wrn-D-K", Arithmetic(6, 4), "nest_conv.bnresnest", "bnresnest-wrn-16-2",
            "resnest-wrn with batch normalization before its head"),
        Family("aresnest-N", Arithmetic(6, 2), "nest_conv.aresnest", "aresnest-20",
            "augmented ResNEst: a linear head on every feature of prebasic"),
        Family("aresnest-wrn-D-K", Arithmetic(6, 4), "nest_conv.aresnest", "aresnest-wrn-16-2",
            "augmented ResNEst: a linear head on every feature of nests-wrn"),
        Family("densenest-N", Arithmetic(6, 2), "nest_conv.densenest", "densenest-20",
            "dense blocks, features side by side, the size of prebasic"),
        Family("densenest-wrn-D-K", Arithmetic(6, 4), "nest_conv.densenest", "densenest-wrn-16-2",
            "dense blocks, features side by side, the size of nests-wrn"),
    ),
    "norm_preservation": (
        Family("preresnet-N", Arithmetic(9, 2), "preresnet.preresnet", "preresnet-20",
            "bottleneck blocks, pre-activation"),
        Family("preplain-N", Arithmetic(9, 2), "preresnet.preplain", "preplain-20",
            "preresnet without its skips"),
        Family("procresnet-N", Arithmetic(9, 4), "preresnet.procresnet", "procresnet-22",
            "preresnet whose transitions are convolutions of their own"),
    ),
    "shortcut_length": (
        Family("nshortcut-R-n", Arithmetic(1), "nshortcut.nshortcut", "nshortcut-5-2",
            "R units of n layers on vectors, an identity around each unit", init="xavier",
            shared=Vectors()),
        Family("convshortcut-N-n", Arithmetic(3, 2), "preresnet.shortcut_length", "convshortcut-26-4",
            "prebasic with shortcuts around n convolutions, equal parameters for every n",
            long_shortcuts=True),
    ),
    "beyond": (
        Family("gpt-N", Arithmetic(1), "transformers.gpt", "gpt-4",
            "transformer that predicts the next token, N blocks", init="transformer", shared=Options()),
        Family("bert-N", Arithmetic(1), "transformers.bert", "bert-4",
            "transformer that predicts tokens from both sides, N blocks", init="transformer",
            shared=Options(norm="post")),
        Family("vit-N", Arithmetic(1), "transformers.vit", "vit-4",
            "transformer on the patches of an image, N blocks", init="transformer", shared=Options()),
    ),
}
# fmt: on

CATALOG: dict[str, Family] = {
    family.name: replace(family, theme=theme)
    for theme, families in _FAMILIES.items()
    for family in families
}
