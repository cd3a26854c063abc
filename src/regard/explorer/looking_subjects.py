"""What the explorer looks at: one example that went through one model.

A subject knows how its example is read once more (`run`), which tokens stand along the sides of its attentions, and
what came of it (`outcome`), so that heads can be switched off and the outcome compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Attention, Memory, attentions
from regard.data.frames import Text
from regard.decoding.protocol import Vocabulary
from regard.errors import UsageError
from regard.inspect.heads import has_heads
from regard.layers.blocks import CausalBlock
from regard.layers.scalar_mix import ScalarMix
from regard.tasks.language_verbs import own_words
from regard.views.document import DocumentMap
from regard.views.match import MatchMap
from regard.views.memory import MemoryTrace
from regard.views.page import side_labels

LOGITS_AT_ONCE = 256  # places; those of a vocabulary of 50,000 take 51 MB
LONGEST_SEARCHED = 1024  # tokens: a beam remembers its own copy of them, and a lens reads all of them at every layer


@dataclass(frozen=True)
class Input:
    """What was typed or shown, and what the model is made to say of it."""

    text: str = ""
    second: str | None = None
    picture: Any = None
    examples: Mapping[str, Sequence[Any]] | None = None  # pictures by label, for a model that compares
    target: str | None = None
    hypothesis: int = 0  # which of the best
    forced: tuple[int, ...] = ()  # tokens it has to begin with
    more: int = 16  # tokens a language model goes on

    @property
    def both(self) -> Text:
        return self.text if self.second is None else (self.text, self.second)


@dataclass(frozen=True)
class Outcome:
    """What a model made of its example: a text, the log-probabilities of what it had said, or labels."""

    text: str | None = None
    said: tuple[float, ...] = ()
    labels: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sides:
    """The tokens that look and the tokens looked at, in all attentions of one kind."""

    queries: Sequence[str]
    keys: Sequence[str]
    query_words: Sequence[int]
    key_words: Sequence[int]
    names: tuple[str, str]  # what the two sides are called
    visible: Sequence[int] | None = None  # how many keys each query may look at
    grid: tuple[int, int, int] | None = None  # rows and columns of a picture, and the first key that belongs to it

    def as_dict(self) -> dict[str, Any]:
        return {
            "queries": side_labels(self.queries, self.query_words),
            "keys": side_labels(self.keys, self.key_words),
            "names": {"queries": self.names[0], "keys": self.names[1]},
            "visible": None if self.visible is None else list(self.visible),
            "grid": None if self.grid is None else dict(zip(("rows", "columns", "first"), self.grid, strict=True)),
        }


class Subject:
    """One example in one model. What a subject cannot do, its lists are empty of."""

    score: float | None = None
    nbest: tuple[tuple[str, float], ...] = ()
    picture: np.ndarray | None = None  # uint8, as the model saw it
    document: DocumentMap | None = None
    memory: MemoryTrace | None = None
    expected: tuple[int, ...] = ()  # what the rows of `logits` said: a token each
    example: Any = None  # what `head_importance` is asked about
    said: str | None = None
    inputs: tuple[Tensor, ...] = ()  # what the model itself is called with
    compares: bool = True  # whether its outcome says anything
    explains: bool = False  # whether `value` has a gradient to explain it by
    match: MatchMap | None = None

    def __init__(self, loaded: Any, given: Input):
        self.loaded, self.given, self.model = loaded, given, loaded.model

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def run(self) -> Any:
        """The pass, once more."""
        raise NotImplementedError

    def sides(self) -> dict[str, Sides]:
        """By the kinds of its attentions."""
        return {}

    def outcome(self) -> Outcome:
        """What comes of the example now."""
        raise NotImplementedError

    def value(self) -> Tensor:
        """How probable what was said is, as a number with a gradient."""
        raise NotImplementedError

    def examples(self, lines: Sequence[str]) -> list[Any]:
        """Lines of text as `head_importance` wants them."""
        raise UsageError("heads of this model are judged by its own example alone: send no lines")

    def kind_of(self, name: str) -> str:
        return self.model.attention_kind(name) if hasattr(self.model, "attention_kind") else "encoder"

    def layer_of(self, name: str) -> int:
        if hasattr(self.model, "attention_layer"):
            return self.model.attention_layer(name)
        return 1 + [each for each, _ in attentions(self.model)].index(name)

    @property
    def span(self) -> int | None:
        """Of a model that looks so many tokens back and no farther: its attentions know places in that window."""
        windowed = any(isinstance(module, Attention) for _, module in attentions(self.model))
        return self.model.config.span if windowed and hasattr(self.model, "over_tokens") else None

    @property
    def views(self) -> list[str]:
        """What can be shown beside the attention itself."""
        heads = any(has_heads(module) for _, module in attentions(self.model))
        speaks = bool(self.expected)
        short = not self.inputs or self.inputs[-1].shape[1] <= LONGEST_SEARCHED
        can = {
            "steps": self.match is None and bool(attentions(self.model)),
            "next": speaks,
            "beam": speaks and short,
            "whatif": heads and self.compares,
            "importance": heads and self.example is not None,
            "rollout": heads,
            "gradient": heads and self.explains,
            "lens": heads and bool(self.inputs) and short,
            "positions": position_table(self.model) is not None,
            "mix": any(isinstance(module, ScalarMix) for module in self.model.modules()),
        }
        return [name for name, able in can.items() if able]

    # for those that say one token after the other

    def logits(self, states: Tensor) -> Tensor:
        """[rows, vocabulary] of the token after each of these states [1, rows, size]."""
        return self.model.logits(states)[0]

    def chances(self) -> Tensor:
        """[rows]: the log-probability of each token that was said."""
        states = self.run()[:, : len(self.expected)]
        said = torch.tensor(self.expected, dtype=torch.long, device=states.device)
        parts = zip(states.split(LOGITS_AT_ONCE, dim=1), said.split(LOGITS_AT_ONCE), strict=True)
        return torch.cat(
            [self.logits(part).float().log_softmax(-1).gather(1, own[:, None])[:, 0] for part, own in parts]
        )

    def log_probabilities(self) -> tuple[float, ...]:
        return tuple(self.chances().tolist())

    def saying(self, tokens: Sequence[int]) -> "Subject":
        """The same example, of which something else was said."""
        other = copy(self)
        other.tell(tokens)
        return other

    def tell(self, tokens: Sequence[int]) -> None:
        """From now on, these tokens were said."""
        raise UsageError("this model does not say one token after the other")


def go_on(decoder: Any, source: Tensor, forced: Sequence[int], vocabulary: Vocabulary, most: int) -> list[int]:
    """What a decoder says that has to begin with the forced tokens, and then takes the likeliest of each step."""
    said: list[int] = []
    never = list(vocabulary.never)
    with torch.inference_mode():
        state, last = decoder.start(source), vocabulary.start
        while len(said) < most:
            logits, state = decoder.step(torch.tensor([last], device=source.device), state)
            logits[:, never] = -torch.inf
            last = forced[len(said)] if len(said) < len(forced) else int(logits[0].argmax())
            if last == vocabulary.end:
                break
            said.append(last)
    return said


@contextmanager
def forgetting(model: nn.Module) -> Iterator[None]:
    """For a pass that nobody goes on from: what each block remembers is let go of as soon as the block is done. Of a
    long text all of it together would be as large as what is kept."""

    def forget(block: nn.Module, inputs: Any, output: tuple[Tensor, Memory]) -> tuple[Tensor, Memory]:
        states, memory = output
        return states, Memory(memory.keys[..., :0, :].clone(), memory.values[..., :0, :].clone())

    handles = [block.register_forward_hook(forget) for block in model.modules() if isinstance(block, CausalBlock)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def token_sides(tokenizer: Any, tokens: list[int]) -> Sides:
    pieces, words = tokenizer.pieces(tokens), own_words(tokenizer.words(tokens))
    return Sides(pieces, pieces, words, words, ("text", "text"))


def patches(rows: int, columns: int) -> list[str]:
    """Places in a picture, by row and column."""
    return [f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]


def position_table(model: nn.Module) -> Tensor | None:
    """The vectors that say where a token stands [places, size], if the model adds such."""
    for module in model.modules():
        found = getattr(module, "positions", None)
        if isinstance(found, nn.Module):
            found = getattr(found, "table", getattr(found, "weight", None))
        if isinstance(found, Tensor) and found.dim() in (2, 3):
            return found.detach().reshape(-1, found.shape[-1])
    return None
