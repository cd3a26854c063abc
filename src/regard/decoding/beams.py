"""How a decoder carries the beams of its sentences.

Some decoders know beams: those of a sentence are queries of one and the same memory, so that the source is never copied
and a step moves nothing but a small mask of who descends from whom. For the others every beam is a row of the batch,
and each step copies their states in a new order.
"""

from typing import Any, Protocol

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.protocol import Decoder, take_rows

Source = Int[Tensor, "sentences length"]
Tokens = Int[Tensor, "sentences beams"]
Parents = Int[Tensor, "sentences beams"]
Logits = Float[Tensor, "sentences beams vocabulary"]


class BeamDecoder(Protocol):
    """A decoder that knows beams. Its state is a nest of tensors as Decoder says, with the sentences first."""

    def start_beams(self, source: Source) -> Any:
        """Every sentence has one beam."""

    def step_beams(self, tokens: Tokens, state: Any) -> tuple[Logits, Any]:
        """Logits of the token after each, and the state in which those are known."""

    def follow(self, state: Any, parents: Parents) -> Any:
        """The state in which beam j of sentence i goes on from what was beam `parents[i, j]`."""


class Beams(Protocol):
    """The beams of all sentences that are still searched."""

    def step(self, tokens: Tokens) -> Logits: ...

    def go_on(self, sentences: Int[Tensor, "kept"], parents: Parents) -> None:
        """Only these sentences stay; beam j of the i-th of them descends from beam `parents[i, j]`."""


class Together:
    """Beams of a decoder that knows them."""

    def __init__(self, decoder: BeamDecoder, source: Source):
        self.decoder, self.count = decoder, len(source)
        self.state = decoder.start_beams(source)

    def step(self, tokens: Tokens) -> Logits:
        logits, self.state = self.decoder.step_beams(tokens, self.state)
        return logits

    def go_on(self, sentences: Int[Tensor, "kept"], parents: Parents) -> None:
        if len(sentences) < self.count:
            self.state, self.count = take_rows(self.state, sentences), len(sentences)
        self.state = self.decoder.follow(self.state, parents)


class Apart:
    """Beams of any decoder, a row each."""

    def __init__(self, decoder: Decoder, source: Source):
        self.decoder, self.beams = decoder, 1
        self.state = decoder.start(source)

    def step(self, tokens: Tokens) -> Logits:
        logits, self.state = self.decoder.step(tokens.flatten(), self.state)
        return logits.unflatten(0, tokens.shape)

    def go_on(self, sentences: Int[Tensor, "kept"], parents: Parents) -> None:
        self.state = take_rows(self.state, (sentences[:, None] * self.beams + parents).flatten())
        self.beams = parents.shape[1]


def carry(decoder: Any, source: Source) -> Beams:
    return (Together if hasattr(decoder, "step_beams") else Apart)(decoder, source)
