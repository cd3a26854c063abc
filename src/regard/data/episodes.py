"""Algorithms to be learnt from examples: copy, repeat-copy and associative recall (Graves et al. 2014, section 4).

Nothing is stored: an episode is drawn when it is needed, from a seed and a number, so where a run stands in its data
is one number. All episodes of a batch have one length. Bits come on the first channels as -1
and 1, signs on channels of their own, and silence is zero:

    copy          b_1 ... b_n  end                              ->  b_1 ... b_n
    repeat-copy   b_1 ... b_n  how often (as a number)          ->  b_1 ... b_n b_1 ... b_n ...  end
    recall        item b b b  item b b b ...  ask b b b ask     ->  the three vectors of the item after the one asked
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.batching import Place
from regard.data.parts import Divisible
from regard.errors import UsageError

Bits = NDArray[np.float32]  # [rows, length, bits], zeros and ones
ITEM_LENGTH = 3  # vectors of one item of the recall
HELD_OUT = {"valid": (1410, 5401, 1), "test": (1410, 5401, 2)}  # seeds no training has: those are pairs of numbers


@dataclass(frozen=True)
class Episodes(Divisible):
    """A batch of episodes of one shape."""

    inputs: NDArray[np.float32]  # [rows, steps, input_size]
    targets: NDArray[np.float32]  # [rows, steps, output_size]; zeros where nothing is asked
    asked: NDArray[np.bool_]  # [steps]: where the answer is expected
    number: int = 0  # of the batch, for whoever wants to see it again

    shared = ("asked", "number")


@dataclass(frozen=True)
class Length:
    """How long an episode is: vectors (or items) to remember, and how often to say them."""

    count: int
    repeats: int = 1

    def __post_init__(self) -> None:
        for name, value in (("length", self.count), ("number of repeats", self.repeats)):
            if value < 1:
                raise UsageError(f"an episode cannot have a {name} of {value}: ask for at least 1")

    def __str__(self) -> str:
        return f"{self.count}" if self.repeats == 1 else f"{self.count}x{self.repeats}"


class Copy:
    """Say again what was seen."""

    def __init__(self, bits: int):
        self.bits, self.input_size, self.output_size = bits, bits + 1, bits

    def steps(self, length: Length) -> int:
        return 2 * length.count + 1

    def draw(self, generator: np.random.Generator, rows: int, length: Length) -> Episodes:
        return self.of(random_bits(generator, rows, length.count, self.bits))

    def of(self, bits: Bits) -> Episodes:
        """The episodes in which these vectors are to be copied."""
        count = bits.shape[1]
        episodes = _blank(self, len(bits), 2 * count + 1)
        episodes.inputs[:, :count, : self.bits] = signed(bits)
        episodes.inputs[:, count, self.bits] = 1
        episodes.targets[:, count + 1 :] = bits
        episodes.asked[count + 1 :] = True
        return episodes


class RepeatCopy:
    """Say it so many times, and then that it is done."""

    def __init__(self, bits: int):
        self.bits, self.input_size, self.output_size = bits, bits + 1, bits + 1

    def steps(self, length: Length) -> int:
        return length.count + 1 + length.count * length.repeats + 1

    def draw(self, generator: np.random.Generator, rows: int, length: Length) -> Episodes:
        return self.of(random_bits(generator, rows, length.count, self.bits), length.repeats)

    def of(self, bits: Bits, repeats: int) -> Episodes:
        """The episodes in which these vectors are to be said `repeats` times."""
        count = bits.shape[1]
        episodes = _blank(self, len(bits), self.steps(Length(count, repeats)))
        episodes.inputs[:, :count, : self.bits] = signed(bits)
        # The paper scales the count to mean 0 and variance 1 over 1 ... 10.
        episodes.inputs[:, count, self.bits] = (repeats - 5.5) / np.sqrt(8.25)
        episodes.targets[:, count + 1 : -1, : self.bits] = np.tile(bits, (1, repeats, 1))
        episodes.targets[:, -1, self.bits] = 1
        episodes.asked[count + 1 :] = True
        return episodes


class Recall:
    """Given one item of a list, say the item after it."""

    def __init__(self, bits: int):
        self.bits, self.input_size, self.output_size = bits, bits + 2, bits

    def steps(self, length: Length) -> int:
        if length.count < 2:
            raise UsageError(f"recall needs at least 2 items, one to ask for and one to say; not {length}")
        return length.count * (1 + ITEM_LENGTH) + 2 + 2 * ITEM_LENGTH

    def draw(self, generator: np.random.Generator, rows: int, length: Length) -> Episodes:
        bits = random_bits(generator, rows, length.count * ITEM_LENGTH, self.bits)
        return self.of(bits, generator.integers(0, max(1, length.count - 1), rows))

    def of(self, bits: Bits, asked: NDArray[np.int64]) -> Episodes:
        """The episodes over these items (three vectors each) in which each row's item number `asked` is shown again."""
        items = bits.reshape(len(bits), -1, ITEM_LENGTH, self.bits)
        count = items.shape[1]
        episodes = _blank(self, len(bits), self.steps(Length(count)))
        listed = episodes.inputs[:, : count * (1 + ITEM_LENGTH)].reshape(len(bits), count, 1 + ITEM_LENGTH, -1)
        listed[:, :, 0, self.bits] = 1
        listed[:, :, 1:, : self.bits] = signed(items)
        episodes.inputs[:, : count * (1 + ITEM_LENGTH)] = listed.reshape(len(bits), -1, self.input_size)
        question = episodes.inputs[:, count * (1 + ITEM_LENGTH) : -ITEM_LENGTH]
        question[:, [0, -1], self.bits + 1] = 1
        rows = np.arange(len(bits))
        question[:, 1:-1, : self.bits] = signed(items[rows, asked])
        episodes.targets[:, -ITEM_LENGTH:] = items[rows, asked + 1]
        episodes.asked[-ITEM_LENGTH:] = True
        return episodes


Algorithm = Copy | RepeatCopy | Recall
ALGORITHMS: dict[str, type[Copy] | type[RepeatCopy] | type[Recall]] = {
    "copy": Copy,
    "repeat-copy": RepeatCopy,
    "recall": Recall,
}


def named_algorithm(name: str, bits: int) -> Algorithm:
    if name not in ALGORITHMS:
        raise UsageError(f"there is no algorithm called {name!r}: choose one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name](bits)


@dataclass(frozen=True)
class Lengths:
    """The lengths episodes are drawn from, every length as often as any other."""

    shortest: int
    longest: int
    most_repeats: int = 1

    def draw(self, generator: np.random.Generator) -> Length:
        count = generator.integers(self.shortest, self.longest + 1)
        return Length(int(count), int(generator.integers(1, self.most_repeats + 1)))


def follow(
    algorithm: Algorithm, lengths: Lengths, budget: int, seed: int, place: Place
) -> Iterator[tuple[Episodes, Place]]:
    """Batches without end from `place` on, of at most `budget` steps, each with the place that comes after it."""
    number = place.batch
    while True:
        generator = np.random.default_rng((seed, number))
        length = lengths.draw(generator)
        rows = max(1, budget // algorithm.steps(length))
        yield replace(algorithm.draw(generator, rows, length), number=number), Place(0, number + 1)
        number += 1


def held_out(algorithm: Algorithm, split: str, rows: int, length: Length) -> Episodes:
    """The episodes of a split that is never trained on: always the same ones."""
    if split not in HELD_OUT:
        raise UsageError(f"there is no split called {split!r}: episodes are drawn for {' and '.join(HELD_OUT)}")
    generator = np.random.default_rng((*HELD_OUT[split], length.count, length.repeats))
    return algorithm.draw(generator, rows, length)


def random_bits(generator: np.random.Generator, rows: int, length: int, bits: int) -> Bits:
    return generator.integers(0, 2, (rows, length, bits), dtype=np.int8).astype(np.float32)


def signed(bits: Bits) -> NDArray[np.float32]:
    """Zeros as -1, so that a vector of zeros is not taken for the silence in which the answer is expected."""
    return 2 * bits - 1


def _blank(algorithm: Copy | RepeatCopy | Recall, rows: int, steps: int) -> Episodes:
    return Episodes(
        np.zeros((rows, steps, algorithm.input_size), np.float32),
        np.zeros((rows, steps, algorithm.output_size), np.float32),
        np.zeros(steps, np.bool_),
    )
