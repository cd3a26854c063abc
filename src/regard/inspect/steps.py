"""Attention, step by step, with the real numbers of one forward pass.

    with watch(model) as seen:
        model(tokens)
    story = seen.steps("layers.3.self_attention", query=-1, head=2)
    for stage in story.stages:
        print(stage.name, stage.formula, stage.numbers)
    story.difference        # between what the stages come to and what the model itself read

Every stage is computed in double precision from the one before, by its formula; what is taken from the model is its
input, its parameters and the keys and values of its memory. So the difference to the model's own context shows that
the story is true. Heads, scores, alignments and the addressing of an NTM each have their stages in a file of their own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import ALIGNMENTS, SCORES, Attention
from regard.errors import UsageError
from regard.inspect.addressing import addressing_stages, is_addressing
from regard.inspect.alignments import Scored, alignment_stages
from regard.inspect.calls import Call, watch_calls
from regard.inspect.heads import Layers, has_heads
from regard.inspect.multi_head import multi_head_stages
from regard.inspect.results import Array, Result, array
from regard.inspect.scores import Asked, score_stages
from regard.inspect.stages import Stage, numbers_of, reading


@dataclass(frozen=True, eq=False)
class Steps(Result):
    """How one head of one attention came from one query to what it read."""

    attention: str  # the name of the module
    kind: str  # such as `multi-head`, `additive soft`, `content focus`
    row: int  # the example of the batch
    query: int
    head: int
    stages: tuple[Stage, ...]
    difference: float  # at most between the context of the stages and the model's own

    def __getitem__(self, name: str) -> Array:
        """The numbers of the stage of this name."""
        for stage in self.stages:
            if stage.name == name:
                return stage.numbers
        raise UsageError(f"there is no stage {name!r}: choose one of {', '.join(stage.name for stage in self.stages)}")


class Seen:
    """What `watch` saw: any number of stories can be told of it."""

    def __init__(self, calls: dict[str, list[Call]]):
        self.calls = calls

    @property
    def names(self) -> tuple[str, ...]:
        """The attentions that were called."""
        return tuple(name for name, calls in self.calls.items() if calls)

    def steps(self, attention: str, query: int = -1, head: int = 0, row: int = 0) -> Steps:
        """The stages of one query and head.

        Queries are counted over all calls, as on a tape: query 3 of a decoder that steps is its fourth step. Of a
        Neural Turing Machine the query is the time step, and its heads are the heads, those that read first.
        """
        calls = self.calls.get(attention)
        if not calls:
            raise UsageError(f"no attention called {attention!r} was seen: choose one of {', '.join(self.names)}")
        with torch.no_grad():
            if is_addressing(calls[0].module):
                return self._of_machine(attention, calls, query, head, row)
            query, call, place = _find(calls, attention, query)
            module = call.module
            head = _check("head", head, module.heads if has_heads(module) else 1, attention)
            row = _check("row", row, len(call.context) if call.context.dim() > 2 else 1, attention)
            return _told(attention, call, row, query, place, head)

    def _of_machine(self, attention: str, calls: list[Call], query: int, head: int, row: int) -> Steps:
        query = _check("query", query, len(calls), attention)
        call = calls[query]
        head = _check("head", head, call.queries, attention)
        row = _check("row", row, len(call.context), attention)
        stages = addressing_stages(call, row, head)
        return _story(attention, "content focus", row, query, head, stages, call.context[row, head])


@contextmanager
def watch(model: nn.Module, layers: Layers = None) -> Iterator[Seen]:
    """See all that the chosen attentions do inside the block; `layers` as for `record`. Outputs do not change."""
    with watch_calls(model, layers) as calls:
        yield Seen(calls)


def steps(
    model: nn.Module, run: Callable[[], object], attention: str, *, query: int = -1, head: int = 0, row: int = 0
) -> Steps:
    """The stages of one query and head in one pass, such as `steps(model, lambda: model(tokens), "attention")`."""
    with watch(model, attention) as seen, torch.no_grad():
        run()
    return seen.steps(attention, query, head, row)


def _told(attention: str, call: Call, row: int, query: int, place: int, head: int) -> Steps:
    module = call.module
    if has_heads(module):
        stages, size = multi_head_stages(call, row, place, head), module.size // module.heads
        own = call.context[row, place, head * size : (head + 1) * size]
        return _story(attention, "multi-head", row, query, head, stages, own)
    kind, stages = _single_head(call, row, place)
    return _story(attention, kind, row, query, head, stages, call.of_row(call.context, row)[place])


def _single_head(call: Call, row: int, place: int) -> tuple[str, list[Stage]]:
    """Score, align, read: any score and any alignment."""
    module = call.module
    assert isinstance(module, Attention)
    vectors, memory = call.given["query"], call.memory_of(row)
    asked = Asked(array(call.of_row(vectors, row)[place]), memory)

    def own_scores() -> Array:
        return array(call.of_row(module.score(vectors, call.memory), row)[place])

    stages = score_stages(module.score, asked, own_scores)
    scored = Scored(
        scores=numbers_of(stages, "scores"),
        place=_place_in_time(call.given["places"], row, place),
        own_key=len(memory) - call.queries + place,
        asked=asked,
        training=call.training,
        own_weights=lambda: array(call.own_weights(row)[place]),
    )
    stages += alignment_stages(module.align, scored)
    stages += reading(numbers_of(stages, "weights"), memory.values)
    return f"{_named(module.score, SCORES)} {_named(module.align, ALIGNMENTS)}", stages


def _named(module: nn.Module, known: Mapping[str, type[nn.Module]]) -> str:
    """As recipes name it, or else by its class."""
    return next((name for name, kind in known.items() if type(module) is kind), type(module).__name__.lower())


def _place_in_time(places: Tensor | None, row: int, place: int) -> int:
    if places is None:
        return place
    return int(places[place] if places.dim() == 1 else places[row, place])


def _story(attention: str, kind: str, row: int, query: int, head: int, stages: list[Stage], own: Tensor) -> Steps:
    away = np.abs(numbers_of(stages, "context") - array(own))
    return Steps(attention, kind, row, query, head, tuple(stages), float(away.max(initial=0.0)))


def _find(calls: list[Call], attention: str, query: int) -> tuple[int, Call, int]:
    """The number of the query, the call it belongs to, and its place there."""
    number = _check("query", query, sum(call.queries for call in calls), attention)
    place = number
    for call in calls:
        if place < call.queries:
            return number, call, place
        place -= call.queries
    raise AssertionError("a query beyond the last call")


def _check(what: str, number: int, count: int, attention: str) -> int:
    if not -count <= number < count:
        raise UsageError(f"there is no {what} {number} in {attention}: it has {count}, counted from 0")
    return number % count
