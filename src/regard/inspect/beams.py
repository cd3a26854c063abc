"""The tree of a beam search: every candidate it weighed up, what became of it, and why.

The search runs as it always does; after each step it shows its candidates to whoever watches. Scores are its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.decoding.beam import Expanded, beam_search
from regard.decoding.generate import evaluating, padded
from regard.decoding.protocol import Decoder, Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.inspect.results import Result
from regard.tasks.captioner import LONGEST, Captioner
from regard.tasks.continuation import Continuation
from regard.tasks.language_verbs import NEW_TOKENS, LanguageModel
from regard.tasks.translator import Translator


@dataclass(frozen=True)
class BeamNode(Result):
    """One candidate: a token after the path of its parent."""

    number: int  # its place in the tree's nodes
    parent: int  # the number of the node before it, or -1 at the beginning
    step: int  # from 1
    token: int
    piece: str  # the token as it stands in the vocabulary, where that is known
    log_probability: float  # of the token after its path
    total: float  # of the whole path
    score: float  # total / step ** length_penalty, what finished hypotheses are ranked by
    fate: str  # kept, pruned, finished, cut or abandoned
    why: str
    rank: int | None  # among the hypotheses that were found, from 0


@dataclass(frozen=True)
class BeamTree(Result):
    """A whole search."""

    beams: int
    length_penalty: float
    nodes: tuple[BeamNode, ...]  # step by step, in each the best first
    hypotheses: tuple[Hypothesis, ...]  # what the search found, the best first

    def path(self, number: int) -> list[BeamNode]:
        """From the first token to this node."""
        nodes: list[BeamNode] = []
        while number >= 0:
            nodes.append(self.nodes[number])
            number = nodes[-1].parent
        return nodes[::-1]

    def children(self, number: int = -1) -> list[BeamNode]:
        """What was tried after this node; -1 is the beginning."""
        return [node for node in self.nodes if node.parent == number]


def beam_tree(
    loaded: Translator | LanguageModel | Captioner,
    example: Any,
    *,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    max_new_tokens: int | None = None,
) -> BeamTree:
    """The search of `loaded` for one text, prompt or picture; what is not given comes from its own settings."""
    if not isinstance(loaded, Translator | LanguageModel | Captioner):
        raise UsageError(
            f"a {type(loaded).__name__} makes no beam search: give a translator, a language model or a captioner"
        )
    settings = loaded.decoding.asked(
        do_sample=False, num_beams=num_beams, length_penalty=length_penalty, max_new_tokens=max_new_tokens
    )
    decoder, source, limit = _asked(loaded, example, settings)
    with evaluating(loaded.model):
        tree = search_tree(
            decoder,
            source.to(next(loaded.model.parameters()).device),
            loaded.vocabulary,
            limit,
            beams=settings.num_beams,
            length_penalty=settings.length_penalty,
            renormalize=settings.renormalize_logits,
        )
    pieces = loaded.tokenizer.pieces([node.token for node in tree.nodes])
    named = (replace(node, piece=piece) for node, piece in zip(tree.nodes, pieces, strict=True))
    return replace(tree, nodes=tuple(named))


def _asked(
    loaded: Translator | LanguageModel | Captioner, example: Any, settings: Decoding
) -> tuple[nn.Module, Tensor, int]:
    """The decoder, what it starts from, and the most tokens it may say."""
    if isinstance(loaded, Translator):
        tokens = loaded.encode(example)
        if not tokens:
            raise UsageError("there is nothing to search for in an empty text")
        source = [*tokens, loaded.tokenizer.end]
        return loaded.model, padded([source], loaded.tokenizer.pad), settings.limit(len(source))
    if isinstance(loaded, LanguageModel):
        decoder = Continuation(loaded.model, loaded.tokenizer.start, loaded.tokenizer.pad)
        told = padded([loaded.begin(example).tokens], loaded.tokenizer.pad)
        return decoder, told, settings.max_new_tokens or NEW_TOKENS
    regions = loaded.see([loaded.preprocessing.pixels(example)])
    return loaded.model, regions, settings.max_new_tokens or LONGEST


def search_tree(
    decoder: Decoder | nn.Module,
    source: Tensor,
    vocabulary: Vocabulary,
    limit: int,
    *,
    beams: int,
    length_penalty: float = 1.0,
    renormalize: bool = False,
) -> BeamTree:
    """The same for any decoder and the source of a single sentence [1, ...]."""
    steps: list[Expanded] = []
    (found,) = beam_search(
        decoder,  # type: ignore[arg-type]
        source,
        vocabulary,
        [limit],
        beams=beams,
        length_penalty=length_penalty,
        renormalize=renormalize,
        watch=steps.append,
    )
    growing = _Growing(vocabulary.end, beams, length_penalty, found)
    for step in steps:
        growing.grow(step, is_last=step is steps[-1], limit=limit)
    return BeamTree(beams, length_penalty, tuple(growing.nodes), tuple(found))


class _Growing:
    """A tree, step by step."""

    def __init__(self, end: int, beams: int, length_penalty: float, found: Sequence[Hypothesis]):
        self.end, self.beams, self.length_penalty = end, beams, length_penalty
        self.ranks = {(tuple(known.tokens), known.finished): rank for rank, known in enumerate(found)}
        self.nodes: list[BeamNode] = []
        self.paths: dict[int, tuple[int, ...]] = {-1: ()}  # the tokens up to each node
        self.tips = [-1] * beams  # the node each beam has reached

    def grow(self, step: Expanded, is_last: bool, limit: int) -> None:
        """Add the candidates of one step."""
        totals, parents, tokens = (part[0].tolist() for part in (step.totals, step.parents, step.tokens))
        kept = step.kept[0].tolist()
        numbers: dict[int, int] = {}
        for candidate, (total, beam, token) in enumerate(zip(totals, parents, tokens, strict=True)):
            if total == -float("inf"):
                continue
            if token == self.end:
                fate, why = self._ended(candidate)
            elif candidate not in kept:
                fate, why = "pruned", f"{self.beams} candidates that go on are more probable"
            elif is_last:
                fate, why = self._left(step.length >= limit)
            else:
                fate, why = "kept", f"number {kept.index(candidate) + 1} of the {self.beams} beams"
            numbers[candidate] = self._add(self.tips[beam], step.length, token, total, fate, why)
        self.tips = [numbers.get(candidate, -1) for candidate in kept]

    def _ended(self, candidate: int) -> tuple[str, str]:
        if candidate < self.beams:
            return "finished", f"it ends, and is among the {self.beams} most probable candidates"
        return "pruned", f"it ends, but {self.beams} candidates are more probable"

    def _left(self, at_limit: bool) -> tuple[str, str]:
        if at_limit:
            return "cut", "the most tokens that were allowed are reached: it competes as it stands"
        return "abandoned", f"the {self.beams} finished hypotheses score better than it does now"

    def _add(self, parent: int, step: int, token: int, total: float, fate: str, why: str) -> int:
        number, before = len(self.nodes), self.nodes[parent].total if parent >= 0 else 0.0
        ended = token == self.end
        self.paths[number] = self.paths[parent] if ended else (*self.paths[parent], token)
        stands = fate in ("finished", "cut")
        rank = self.ranks.get((self.paths[number], ended)) if stands else None
        if stands and rank is None:
            why += f"; {self.beams} others score better"
        score = total / step**self.length_penalty
        self.nodes.append(BeamNode(number, parent, step, token, "", total - before, total, score, fate, why, rank))
        return number
