"""Going on from a prompt: a language model as a decoder, and someone who listens while it speaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import real_tokens

HALF_A_CHARACTER = "\ufffd"  # what the bytes of a character decode to as long as some of them are missing


@dataclass(frozen=True)
class Reading:
    """The state of a search: what the model carries, and the last token of each prompt, which it has not read yet."""

    carried: Any
    last: Tensor


class Continuation(nn.Module):
    """A language model as a decoder (regard.decoding.protocol.Decoder) whose source is the prompt.

    Every search begins with one and the same token, `begin`; here it stands for the last token of the prompt.
    """

    def __init__(self, model: nn.Module, begin: int, pad: int):
        super().__init__()
        self.model: Any = model
        self.begin, self.pad = begin, pad
        self.training = model.training  # so that whoever puts things back afterwards leaves the model as it was

    def start(self, source: Tensor) -> Reading:
        real = real_tokens(source, self.pad)
        places = torch.arange(source.shape[1], device=source.device)
        last = torch.where(real, places, -1).amax(1, keepdim=True)
        told = source.scatter(1, last, self.pad)
        told = told[:, real_tokens(told, self.pad).any(0)]
        carried = self.model.read(told)[1] if told.shape[1] else None
        return Reading(carried, source.gather(1, last).squeeze(1))

    def step(self, tokens: Tensor, state: Reading) -> tuple[Tensor, Reading]:
        tokens = torch.where(tokens == self.begin, state.last, tokens)
        states, carried = self.model.read(tokens[:, None], state.carried)
        return self.model.logits(states[:, -1]), Reading(carried, state.last)


class Listener:
    """Hears every token: ends a text at a stop string, and passes on what is new of it and sure to stay."""

    def __init__(
        self, text_of: Callable[[int, list[int]], str], stops: Sequence[str], tell: Callable[[str], None] | None = None
    ):
        self.text_of, self.stops, self.tell = text_of, [stop for stop in stops if stop], tell
        self.told = ""

    def __call__(self, item: int, tokens: list[int]) -> bool:
        """Whether text number `item`, of which `tokens` are said, is at its end."""
        text = self.text_of(item, tokens)
        if self.tell is not None:
            self.pass_on(self.sure(cut(text, self.stops)))
        return cut(text, self.stops) != text

    def sure(self, text: str) -> str:
        """Without its last characters, if these may turn out to be others or the beginning of a stop string."""
        sure = len(text.rstrip(HALF_A_CHARACTER))
        for stop in self.stops:
            begun = (size for size in range(min(len(stop), len(text)), 0, -1) if text.endswith(stop[:size]))
            sure = min(sure, len(text) - next(begun, 0))
        return text[:sure]

    def pass_on(self, text: str) -> None:
        if self.tell is not None and len(text) > len(self.told) and text.startswith(self.told):
            self.tell(text[len(self.told) :])
            self.told = text


def cut(text: str, stops: Sequence[str]) -> str:
    """The text up to the first stop string in it."""
    return text[: min((text.index(stop) for stop in stops if stop and stop in text), default=len(text))]
