"""Every data set there is: what it looks like, its files and their checksums, where to get it."""

from dataclasses import dataclass

from bathyscope.core.arguments import check_name
from bathyscope.core.errors import UnknownName
from bathyscope.data.archives import MOST_BYTES
from bathyscope.data.checksums import File
from bathyscope.data.sources import Source, archive, gzipped_files


@dataclass(frozen=True)
class Entry:
    """A data set of the catalog.

    Attributes:
        name: what `load` and `fetch` call it.
        shape: channels, height and width.
        num_classes: how many classes there are.
        num_train: training images.
        num_test: test images.
        origin: who made it and when, or how it comes about.
        license: its terms, as far as they are stated.
        files: its files in the cache; none for a set that needs no download or is a tree of images.
        sources: where to get them, the best first; none for a set that needs no download.
        archive_md5: of the official archive, where its files have no checksums of their own.
        by_hand: what to get and how to lay it out below the folder of the set, for one that its
            owners give only to those who ask.
    """

    name: str
    shape: tuple[int, int, int]
    num_classes: int
    num_train: int
    num_test: int
    origin: str
    license: str
    files: tuple[File, ...] = ()
    sources: tuple[Source, ...] = ()
    archive_md5: str = ""
    by_hand: str = ""

    @property
    def most_bytes(self) -> int:
        """What an archive of it may unpack to: twice its files, for one archive holds more than them."""
        return 2 * sum(file.num_bytes for file in self.files) or MOST_BYTES

    @property
    def needs_nothing(self) -> bool:
        """Whether it comes with the package, or out of a random generator."""
        return not (self.sources or self.by_hand)


def entry(name: str) -> Entry:
    """The catalog's entry of that name.

    Examples:
        >>> entry("mnist").num_train
        60000
    """
    if check_name("The name of the data set", name) not in CATALOG:
        raise UnknownName("data set", name, CATALOG, hint=_HINT)
    return CATALOG[name]


_HINT = "`bathyscope data list` shows them all; your own data is folder:PATH or npz:PATH."

# The md5s are those published with the data or by its users; the sha256s were taken from files that
# passed them.
# fmt: off
_MNIST = (
    File("train-images-idx3-ubyte", 47_040_016, md5="6bbc9ace898e44ae57da46a324031adb",
        sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    File("train-labels-idx1-ubyte", 60_008, md5="a25bea736e30d166cdddb491f175f624",
        sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    File("t10k-images-idx3-ubyte", 7_840_016, md5="2646ac647ad5339dbf082846283269ea",
        sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    File("t10k-labels-idx1-ubyte", 10_008, md5="27ae3e4e09519cfbb04c329615203637",
        sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
_FASHION = (
    File("train-images-idx3-ubyte", 47_040_016, md5="f4a8712d7a061bf5bd6d2ca38dc4d50a",
        sha256="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    File("train-labels-idx1-ubyte", 60_008, md5="9018921c3c673c538a1fc5bad174d6f9",
        sha256="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    File("t10k-images-idx3-ubyte", 7_840_016, md5="8181f5470baa50b63fa0f6fddb340f0a",
        sha256="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    File("t10k-labels-idx1-ubyte", 10_008, md5="15d484375f8d13e6eb1aabb0c3f46965",
        sha256="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)
_CIFAR_10 = (
    File("data_batch_1.bin", 30_730_000, md5="5dd7e06a14cb22eb9f671a540d1b7c25",
        sha256="cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    File("data_batch_2.bin", 30_730_000, md5="5ea93a67294ea407fff1d09f752e9692",
        sha256="a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    File("data_batch_3.bin", 30_730_000, md5="942cd6a4bcdd0dd3c604fbe906cb4421",
        sha256="bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    File("data_batch_4.bin", 30_730_000, md5="ae636b3ba5c66a11e91e8cb52e771fcb",
        sha256="014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    File("data_batch_5.bin", 30_730_000, md5="53f37980c15c3d472c316c40844f3f0d",
        sha256="755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    File("test_batch.bin", 30_730_000, md5="803d5f7f4d78ea53de84dbe85f74fb6d",
        sha256="8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
)
# fmt: on
# No copy could be had to pin these two: the md5 of the official archive decides.
_CIFAR_100 = (File("train.bin", 153_700_000), File("test.bin", 30_740_000))
_CIFAR_10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR_100_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
_TINY_IMAGENET_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"

_IDX_NAMES = tuple(file.name for file in _MNIST)
_FASHION_PAGE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"


def _synthetic(law: str, shape: tuple[int, int, int], num_classes: int) -> Entry:
    return Entry(f"synthetic:{law}", shape, num_classes, 2000, 500, "a random draw", "Apache-2.0")


# fmt: off
CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("digits", (1, 8, 8), 10, 1442, 355, "Alpaydin 1998", "CC BY 4.0"),
        Entry("mnist", (1, 28, 28), 10, 60_000, 10_000, "LeCun 1998", "CC BY-SA 3.0", files=_MNIST,
            sources=(gzipped_files("https://ossci-datasets.s3.amazonaws.com/mnist/", _IDX_NAMES),)),
        Entry("fashion-mnist", (1, 28, 28), 10, 60_000, 10_000, "Xiao 2017", "MIT", files=_FASHION,
            sources=(gzipped_files(_FASHION_PAGE, _IDX_NAMES),)),
        Entry("cifar-10", (3, 32, 32), 10, 50_000, 10_000, "Krizhevsky 2009", "none stated",
            files=_CIFAR_10,
            sources=(archive(_TORONTO + "cifar-10-binary.tar.gz", md5=_CIFAR_10_MD5,
                names=[file.name for file in _CIFAR_10]),)),
        Entry("cifar-100", (3, 32, 32), 100, 50_000, 10_000, "Krizhevsky 2009", "none stated",
            files=_CIFAR_100,
            sources=(archive(_TORONTO + "cifar-100-binary.tar.gz", md5=_CIFAR_100_MD5,
                names=[file.name for file in _CIFAR_100]),),
            archive_md5=_CIFAR_100_MD5),
        Entry("tiny-imagenet", (3, 64, 64), 200, 100_000, 10_000, "Stanford CS231n", "research only",
            sources=(archive("http://cs231n.stanford.edu/tiny-imagenet-200.zip", md5=_TINY_IMAGENET_MD5),),
            archive_md5=_TINY_IMAGENET_MD5),
        Entry("imagenet", (3, 224, 224), 1000, 1_281_167, 50_000, "Deng 2009", "research only",
            by_hand="ask for ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar at image-net.org and "
            "unpack them to train/CLASS/*.JPEG and val/CLASS/*.JPEG"),
        _synthetic("gaussian", (1, 8, 8), 10),
        _synthetic("spirals", (2, 1, 1), 3),
        _synthetic("teacher", (1, 8, 8), 10),
        _synthetic("gratings", (3, 32, 32), 10),
        _synthetic("hues", (3, 32, 32), 100),
    )
}
# fmt: on
