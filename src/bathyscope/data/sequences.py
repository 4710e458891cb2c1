"""Sequences of tokens without a download: text, and three tasks whose answers are known."""

import hashlib
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Generator, Tensor

from bathyscope.core.arguments import check_count, check_name, check_seed
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.losses import IGNORED
from bathyscope.data.streaming import Streamed

CONTEXT = 64
"""Tokens of a sequence, unless another number is asked for."""

NUM_TRAIN, NUM_TEST = 2000, 500
"""Sequences of a set, unless other numbers are asked for."""

# Tabs, line ends and printable ASCII; everything else is one more token.
_CHARACTERS = "\t\n" + "".join(map(chr, range(32, 127)))
_VOCABULARY = {"text": len(_CHARACTERS) + 1, "copy": 11, "addition": 98, "sorting": 11}
_TEXT_TEST_FRACTION = 0.1
_DIGITS = 10
_MODULUS = 97
_MOST_TOKENS = 1 << 31  # of a set in memory: 16 GiB of token numbers


@dataclass(frozen=True, eq=False)
class SequenceSet:
    """Sequences of tokens with their targets, split into train and test.

    Attributes:
        name: what it was made by.
        train_inputs: tokens.
        train_targets: at each position the token to predict there; `IGNORED` where there is none.
        test_inputs: as `train_inputs`.
        test_targets: as `train_targets`.
        vocabulary: how many tokens there are.
        sha256: of the tokens and targets, or of the text that they were cut from.
    """

    name: str
    train_inputs: Int64[Tensor, " n t"] | Streamed
    train_targets: Int64[Tensor, " n t"] | Streamed
    test_inputs: Int64[Tensor, " m t"] | Streamed
    test_targets: Int64[Tensor, " m t"] | Streamed
    vocabulary: int
    sha256: str

    def __repr__(self) -> str:
        """One line: the name and the sizes."""
        return (
            f"<SequenceSet {self.name}: {len(self.train_inputs)} sequences to train on, "
            f"{len(self.test_inputs)} to test on, {self.train_inputs.shape[1]} tokens each, "
            f"vocabulary {self.vocabulary}>"
        )

    def batch(
        self, size: int, *, generator: Generator | None = None
    ) -> tuple[Int64[Tensor, " b t"], Int64[Tensor, " b t"]]:
        """So many training sequences, drawn at random, and their targets.

        Raises:
            UsageError: there are not this many.
        """
        if not 1 <= size <= len(self.train_inputs):
            raise UsageError(
                f"A batch of {self.name} has 1 to {len(self.train_inputs)} sequences, but {size} "
                "were asked for."
            )
        chosen = torch.randperm(len(self.train_inputs), generator=generator)[:size]
        return self.train_inputs[chosen], self.train_targets[chosen]


@dataclass(frozen=True, slots=True)
class SequenceEntry:
    """What a set of sequences looks like unless other sizes are asked for."""

    name: str
    context: int
    vocabulary: int
    num_train: int
    num_test: int
    origin: str
    license: str


def sequence_entries() -> list[SequenceEntry]:
    """Every set of sequences there is; nothing is read.

    Examples:
        >>> [entry.name for entry in sequence_entries()]
        ['text', 'copy', 'addition', 'sorting']
    """
    return [
        SequenceEntry(
            name,
            3 if name == "addition" else CONTEXT,
            _VOCABULARY[name],
            NUM_TRAIN,
            NUM_TEST,
            "Python itself" if name == "text" else "a random draw",
            "PSF-2.0" if name == "text" else "Apache-2.0",
        )
        for name in SEQUENCES
    ]


def sequences(
    name: str,
    *,
    context: int = CONTEXT,
    num_train: int = NUM_TRAIN,
    num_test: int = NUM_TEST,
    seed: int = 0,
) -> SequenceSet:
    """Text or a task by name.

    `text`: characters of the sources of Python's own standard library, the next one to be predicted;
    the same for every machine with that version of Python. `copy`: random digits, a mark, and the same
    digits again. `addition`: a, b and (a + b) mod 97, every pair either in train or in test.
    `sorting`: random digits, a mark, and the same digits in order.

    Args:
        name: one of `SEQUENCES`.
        context: tokens of a sequence; of `addition` there are three, whatever is asked for.
        num_train: training sequences.
        num_test: test sequences.
        seed: of the draw.

    Raises:
        UnknownName: there is no such set.
        UsageError: sequences are too short for the task, or there are not this many.

    Examples:
        >>> found = sequences("sorting", context=8, num_train=4, num_test=1)
        >>> digits, answer = found.train_inputs[0, :4], found.train_targets[0, 4:]
        >>> torch.equal(digits.sort().values, answer), found.train_targets[0, :4].tolist()
        (True, [-100, -100, -100, -100])
    """
    if check_name("The name of the sequences", name) not in SEQUENCES:
        raise UnknownName("set of sequences", name, SEQUENCES)
    context = check_count("context", context, minimum=3, most=_MOST_TOKENS)
    most = _MOST_TOKENS // context
    num_train = check_count("num_train", num_train, minimum=1, most=most)
    num_test = check_count("num_test", num_test, minimum=1, most=most)
    generator = torch.Generator().manual_seed(check_seed(seed))
    return SEQUENCES[name](context, num_train, num_test, generator)


def text(context: int, num_train: int, num_test: int, generator: Generator) -> SequenceSet:
    """Stretches of the standard library's sources, the last tenth of it kept for the test."""
    tokens, sha256 = library_text()
    split = len(tokens) - int(_TEXT_TEST_FRACTION * len(tokens))
    parts = []
    for low, high, count in ((0, split, num_train), (split, len(tokens), num_test)):
        starts = torch.randint(low, high - context, (count, 1), generator=generator)
        rows = tokens[starts + torch.arange(context + 1)]
        parts.append((rows[:, :-1].contiguous(), rows[:, 1:].contiguous()))
    (train, train_targets), (test, test_targets) = parts
    return SequenceSet(
        "text", train, train_targets, test, test_targets, _VOCABULARY["text"], sha256
    )


@cache
def library_text() -> tuple[Int64[Tensor, " n"], str]:
    """The modules of Python's standard library in the order of their names, as tokens, and their hash.

    Raises:
        UsageError: this Python has come without the sources.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(folder.glob("*.py"), key=lambda path: path.name)
    files = [path for path in files if not path.name.startswith("_sysconfigdata")]
    if not files:
        raise UsageError(
            f"The sources of the standard library are not in {folder}; use another set of sequences."
        )
    whole = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    locations = {character: i for i, character in enumerate(_CHARACTERS)}
    tokens = torch.tensor([locations.get(character, len(_CHARACTERS)) for character in whole])
    return tokens, hashlib.sha256(whole.encode()).hexdigest()


def copying(context: int, num_train: int, num_test: int, generator: Generator) -> SequenceSet:
    """Digits, a mark, the same digits."""
    return _answer_set("copy", context, num_train, num_test, generator, answer=lambda rows: rows)


def sorting(context: int, num_train: int, num_test: int, generator: Generator) -> SequenceSet:
    """Digits, a mark, the same digits in order."""
    return _answer_set(
        "sorting", context, num_train, num_test, generator, answer=lambda rows: rows.sort(1).values
    )


def addition(context: int, num_train: int, num_test: int, generator: Generator) -> SequenceSet:
    """a, b and a mark, after which the sum modulo 97 is to be predicted."""
    pairs = torch.cartesian_prod(torch.arange(_MODULUS), torch.arange(_MODULUS))
    if num_train + num_test > len(pairs):
        raise UsageError(
            f"There are {len(pairs)} sums modulo {_MODULUS}, but {num_train} and {num_test} were "
            "asked for."
        )
    pairs = pairs[torch.randperm(len(pairs), generator=generator)[: num_train + num_test]]
    inputs = torch.cat([pairs, torch.full((len(pairs), 1), _MODULUS)], dim=1)
    targets = torch.full_like(inputs, IGNORED)
    targets[:, 2] = pairs.sum(1) % _MODULUS
    return _split("addition", inputs, targets, num_train, vocabulary=_VOCABULARY["addition"])


def _answer_set(
    name: str,
    context: int,
    num_train: int,
    num_test: int,
    generator: Generator,
    *,
    answer: Callable[[Tensor], Tensor],
) -> SequenceSet:
    length = context // 2
    shape = (num_train + num_test, length)
    digits = torch.randint(_DIGITS, shape, generator=generator)
    mark = torch.full((len(digits), 1), _DIGITS)
    rows = torch.cat([digits, mark, answer(digits)], dim=1)
    inputs, targets = rows[:, :-1].contiguous(), rows[:, 1:].clone()
    targets[:, :length] = IGNORED  # the digits themselves are random
    return _split(name, inputs, targets, num_train, vocabulary=_VOCABULARY[name])


def _split(
    name: str, inputs: Tensor, targets: Tensor, num_train: int, *, vocabulary: int
) -> SequenceSet:
    whole = torch.stack([inputs, targets]).numpy().tobytes()
    return SequenceSet(
        name,
        inputs[:num_train],
        targets[:num_train],
        inputs[num_train:],
        targets[num_train:],
        vocabulary,
        hashlib.sha256(whole).hexdigest(),
    )


SEQUENCES: dict[str, Callable[[int, int, int, Generator], SequenceSet]] = {
    "text": text,
    "copy": copying,
    "addition": addition,
    "sorting": sorting,
}
