"""Every family of networks, by name."""

from bathyscope.nets import preresnet, resnet
from bathyscope.nets.depth import Arithmetic
from bathyscope.nets.family import Family

CATALOG: dict[str, Family] = {
    "plain": Family(
        pattern="plain-N",
        builder=resnet.plain,
        depths=Arithmetic(6, 2),
        summary="resnet without its skips",
        theme="singularity",
        example="plain-20",
    ),
    "resnet": Family(
        pattern="resnet-N",
        builder=resnet.resnet,
        depths=Arithmetic(6, 2),
        summary="basic blocks, post-activation, option A or B shortcuts",
        theme="singularity",
        example="resnet-20",
    ),
    "highway": Family(
        pattern="highway-N",
        builder=resnet.highway,
        depths=Arithmetic(6, 2),
        summary="resnet with transform and carry gates, coupled or not",
        theme="singularity",
        example="highway-20",
    ),
    "diracnet": Family(
        pattern="diracnet-N",
        builder=resnet.diracnet,
        depths=Arithmetic(6, 2),
        summary="plain with weights diag(a) I + W",
        theme="singularity",
        example="diracnet-20",
    ),
    "prebasic": Family(
        pattern="prebasic-N",
        builder=preresnet.prebasic,
        depths=Arithmetic(6, 2),
        summary="basic blocks, pre-activation",
        theme="nests",
        example="prebasic-20",
    ),
    "wrn": Family(
        pattern="wrn-D-K",
        builder=preresnet.wrn,
        depths=Arithmetic(6, 4),
        summary="wide ResNet, K times the channels",
        theme="nests",
        example="wrn-16-2",
    ),
    "preresnet": Family(
        pattern="preresnet-N",
        builder=preresnet.preresnet,
        depths=Arithmetic(9, 2),
        summary="bottleneck blocks, pre-activation",
        theme="norm_preservation",
        example="preresnet-20",
    ),
    "preplain": Family(
        pattern="preplain-N",
        builder=preresnet.preplain,
        depths=Arithmetic(9, 2),
        summary="preresnet without its skips",
        theme="norm_preservation",
        example="preplain-20",
    ),
    "procresnet": Family(
        pattern="procresnet-N",
        builder=preresnet.procresnet,
        depths=Arithmetic(9, 4),
        summary="preresnet whose transitions are convolutions of their own",
        theme="norm_preservation",
        example="procresnet-22",
    ),
    "convshortcut": Family(
        pattern="convshortcut-N-K",
        builder=preresnet.shortcut_length,
        depths=Arithmetic(3, 2),
        summary="prebasic with shortcuts around K convolutions, equal parameters for every K",
        theme="shortcut_length",
        example="convshortcut-26-4",
        long_shortcuts=True,
    ),
}
