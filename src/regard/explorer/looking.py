"""A session of the explorer: one example in one model, kept, so that any part of it can be asked for.

Sessions have the name of what they hold: the same example in the same model is the same session, and a link to it
finds it again. The last ones used are kept, as many as fit; whoever asks for one that is gone runs its example again.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import attentions
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.explorer.kept import Call, KeptAttention, Reads, by_token, keep
from regard.explorer.looking_subjects import Sides, Subject
from regard.explorer.refusals import Refusal
from regard.explorer.sizes import held_bytes
from regard.inspect import Seen, watch
from regard.views.maps import AttentionMap, display

BUDGET = 512 << 20  # bytes that all sessions together may keep, but for the last one, which may be larger
KIND_TITLES = {"encoder": "self-attention", "decoder": "self-attention", "cross": "cross-attention"}


class Session:
    """One pass of a model, kept."""

    def __init__(self, name: str, subject: Subject):
        self.name, self.subject = name, subject
        self.sides: dict[str, Sides] = subject.sides()
        self.attentions: dict[str, KeptAttention] = {}
        self.reads = Reads()
        self._seen: tuple[str, Seen] | None = None
        self._judged: tuple[tuple[str, ...], list[Any]] | None = None
        self._sizes: dict[str, int] = {}  # bytes of the example with its pass, and of those two
        if self.sides:
            with evaluating(subject.model), torch.inference_mode(), keep(subject.model) as kept:
                subject.run()
            self.attentions = {each: self._placed(kept[each]) for each in kept}
            self.reads = kept.reads
        self.told = self._told()
        self._sizes["pass"] = self._size_of(self)

    def _placed(self, kept: KeptAttention) -> KeptAttention:
        """By the token looked at, where a model with a window has recorded places in it."""
        span = self.subject.span
        if span is None:
            return kept
        recorded = torch.from_numpy(kept.rows(range(kept.queries)))
        call = Call(kept.queries, kept.queries, by_token(recorded, span))
        return KeptAttention(kept.name, kept.heads, kept.has_heads, [call], kept.reads)

    @property
    def bytes(self) -> int:
        """All that is kept: the example, its pass, and what was made of it since."""
        return sum(self._sizes.values()) + self.reads.bytes

    def _size_of(self, part: Any) -> int:
        return held_bytes(part, (self.subject.model, self.subject.loaded))

    def let_go(self) -> None:
        """Of everything that is made again when somebody asks for it."""
        self._seen = self._judged = None
        self._sizes = {"pass": self._sizes["pass"]}
        self.reads.clear()

    def attention(self, name: str) -> KeptAttention:
        if name not in self.attentions:
            raise UsageError(f"there is no attention called {name!r}; there are: {', '.join(self.attentions)}")
        return self.attentions[name]

    def sides_of(self, name: str) -> Sides:
        return self.sides[self.subject.kind_of(name)]

    def title(self, name: str, head: int | None = None) -> str:
        kind, layer = KIND_TITLES[self.subject.kind_of(name)], self.subject.layer_of(name)
        return f"{kind}, layer {layer}" + (f", head {head + 1}" if head is not None else "")

    def map(self, name: str) -> AttentionMap:
        """The weights of all heads of an attention with their tokens."""
        kept = self.attention(name)
        return self.labelled(name, kept.rows(range(kept.queries)), self.title(name))

    def labelled(self, name: str, weights: NDArray[np.float32], title: str) -> AttentionMap:
        """Weights [heads, queries, keys] with the tokens of an attention."""
        sides = self.sides_of(name)
        return AttentionMap(
            name=title,
            kind=self.subject.kind_of(name),
            layer=self.subject.layer_of(name),
            weights=weights,
            queries=tuple(sides.queries),
            keys=tuple(sides.keys),
            query_words=tuple(sides.query_words),
            key_words=tuple(sides.key_words),
            causal=sides.visible is not None,
            visible=None if sides.visible is None else tuple(sides.visible),
        )

    def seen(self, name: str) -> Seen:
        """All that one attention was asked in the pass, which is made again for it; the last one stays."""
        if name not in dict(attentions(self.subject.model)):
            raise UsageError(f"there is no attention called {name!r} in this model")
        if self._seen is None or self._seen[0] != name:
            with evaluating(self.subject.model), torch.no_grad(), watch(self.subject.model, name) as seen:
                self.subject.run()
            self._seen = (name, seen)
            self._sizes["seen"] = self._size_of(seen)
        return self._seen[1]

    def examples(self, lines: Sequence[str]) -> list[Any]:
        """What heads are judged by: these lines, or the example itself; the last ones stay."""
        if not lines:
            if self.subject.example is None:
                raise UsageError("there is no right answer here to judge the heads by")
            return [self.subject.example]
        if self._judged is None or self._judged[0] != tuple(lines):
            self._judged = (tuple(lines), self.subject.examples(lines))
            self._sizes["judged"] = self._size_of(self._judged)
        return self._judged[1]

    def _told(self) -> dict[str, Any]:
        """What a page must know before it asks for numbers."""
        subject = self.subject
        return {
            "session": self.name,
            "text": subject.given.text,
            "second": subject.given.second,
            "said": subject.said,
            "score": subject.score,
            "nbest": [{"text": text, "score": score} for text, score in subject.nbest],
            "hypothesis": subject.given.hypothesis,
            "tokens": self._tokens(),
            "sides": {kind: sides.as_dict() for kind, sides in self.sides.items()},
            "attentions": [
                {
                    "name": name,
                    "kind": subject.kind_of(name),
                    "layer": subject.layer_of(name),
                    "heads": each.heads,
                    "hasHeads": each.has_heads,
                    "queries": each.queries,
                    "keys": each.keys,
                }
                for name, each in self.attentions.items()
            ],
            "views": subject.views,
            "stories": self._stories(),
            "labels": self._labels(),
            "stage": next(
                (name for name in ("document", "memory", "match") if getattr(subject, name) is not None), None
            ),
        }

    def _tokens(self) -> dict[str, Any] | None:
        """What was said token by token, for those who do so; the prompt of a language model is among them."""
        expected = self.subject.expected
        if not expected:
            return None
        begun = getattr(self.subject, "begun", None)  # of its prompt, the first token was never expected
        return {
            "ids": list(expected),
            "pieces": self.subject.loaded.tokenizer.pieces(expected),
            "prompted": begun is not None,
            "places": len(expected) + (begun is not None),  # where a next token can be asked for
            "free": 0 if begun is None else len(begun.tokens) - 1,  # the first that the model chose itself
        }

    def _labels(self) -> dict[str, Any] | None:
        """Of a model that compares pictures: the labels of those it was given, and how many it can tell apart."""
        match = self.subject.match
        if match is None:
            return None
        own = self.subject.given.examples is not None
        return {"names": list(dict.fromkeys(match.labels)), "most": self.subject.model.config.ways, "own": own}

    def _stories(self) -> list[dict[str, Any]]:
        """The attentions without maps whose steps can be told: of documents and memories."""
        document, memory = self.subject.document, self.subject.memory
        if document is None and memory is None:
            return []
        rows = 1 if document is None else len(document.sentences)
        times, heads = 1, ["1"]
        if memory is not None:
            times, readers, writers = len(memory.inputs), memory.read_weights.shape[1], memory.write_weights.shape[1]
            heads = [f"reads {i + 1}" for i in range(readers)] + [f"writes {i + 1}" for i in range(writers)]
        return [
            {
                "name": name,
                "title": self.subject.kind_of(name) if document is not None else name,
                "rows": rows if document is not None and self.subject.kind_of(name) == "words" else 1,
                "queries": times,
                "heads": heads,
            }
            for name, _ in attentions(self.subject.model)
        ]

    def key_labels(self, name: str, query: int, row: int, count: int) -> list[str]:
        """What the keys of a step are called."""
        subject = self.subject
        if subject.document is not None:
            if subject.kind_of(name) != "words":
                return [f"sentence {number + 1}" for number in range(count)]
            words = [subject.document.text[start:end] for start, end in subject.document.sentences[row]]
            pieces = [token for tokens in subject.loaded.encoder.tokens(words) for token in tokens]
            return [display(piece) for piece in subject.loaded.tokenizer.pieces(pieces)]
        if subject.memory is not None:
            return [f"cell {number + 1}" for number in range(count)]
        keys = [display(token) for token in self.sides_of(name).keys]
        first = 0 if subject.span is None else max(0, query - subject.span)
        return keys[first:]


def bytes_of(model: Any, shapes: Sequence[tuple[int, int]]) -> int:
    """About how much a pass with these numbers of queries and keys leaves: every query and every key."""
    size = getattr(model.config, "size", 512)
    return sum(4 * size * (queries + keys) for queries, keys in shapes)


class Sessions:
    """The last ones used, as many as fit."""

    def __init__(self, budget: int = BUDGET, most: int = 16):
        self.budget, self.most = budget, most
        self._kept: OrderedDict[str, tuple[str, Session]] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def name_of(model: str, asked: str) -> str:
        return hashlib.sha256(f"{model}\n{asked}".encode("utf-8", errors="replace")).hexdigest()[:20]

    def add(self, model: str, session: Session) -> None:
        with self._lock:
            self._kept[session.name] = (model, session)
            self._kept.move_to_end(session.name)
            while len(self._kept) > 1 and (len(self._kept) > self.most or self._bytes() > self.budget):
                self._kept.popitem(last=False)

    def settle(self, session: Session) -> None:
        """Keep to the budget after a question, for which a session may have kept more; called by its model's thread."""
        with self._lock:
            while len(self._kept) > 1 and self._bytes() > self.budget:
                self._kept.popitem(last=False)
            is_over = self._bytes() > self.budget
        if is_over:
            session.let_go()

    def make_room(self, count: int) -> None:
        """Let go of so many that another with `count` bytes will fit: while it is made, both would be there."""
        with self._lock:
            while self._kept and self._bytes() + count > self.budget:
                self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(session.bytes for _, session in self._kept.values())

    def get(self, name: str) -> tuple[str, Session] | None:
        """The model's name and the session."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def find(self, name: str) -> tuple[str, Session]:
        found = self.get(name)
        if found is None:
            raise Refusal(404, "this example is not kept any more: run it again")
        return found
