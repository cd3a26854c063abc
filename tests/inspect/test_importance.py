"""What heads are worth, against losses that are spelled out token by token."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from inspected import (
    BERT_WORDS,
    LINES,
    PAIRS,
    WORDS,
    a_classifier,
    a_filler,
    a_speaker,
    a_translator,
    an_image_classifier,
)

from regard import inspect
from regard.attention import MultiHeadAttention, attentions
from regard.errors import UsageError
from regard.inspect.heads import heads_changed
from regard.inspect.judging import judged
from regard.tasks.tagger import Tagger

TOLERANCE = dict(rel=1e-4, abs=1e-5)
TEXTS = [LINES[0], "a dog", "the cat saw the log"]


def cost(logits: torch.Tensor, token: int) -> Any:
    """-log p of one token."""
    return logits.double().logsumexp(-1) - logits[token].double()


def of_translation(loaded: Any, pair: tuple[str, str]) -> tuple[Any, int]:
    source = torch.tensor([[*loaded.encode(pair[0]), WORDS.end]])
    target = loaded.encode(pair[1])
    logits = loaded.model(source, torch.tensor([[WORDS.start, *target]]))[0]
    return sum(cost(logits[place], token) for place, token in enumerate([*target, WORDS.end])), len(target) + 1


def of_text(loaded: Any, text: str) -> tuple[Any, int]:
    said = [*WORDS.encode(text), WORDS.end]
    logits = loaded.model(torch.tensor([[WORDS.end, *said[:-1]]]))[0]
    return sum(cost(logits[place], token) for place, token in enumerate(said)), len(said)


def of_gaps(loaded: Any, text: str) -> tuple[Any, int]:
    """Every seventh word hidden, seven times over."""
    words = BERT_WORDS.encode(text)
    total: Any = 0.0
    for first in range(min(7, len(words))):
        hidden = range(first, len(words), 7)
        row = [
            BERT_WORDS.start,
            *(BERT_WORDS.mask if i in hidden else word for i, word in enumerate(words)),
            BERT_WORDS.end,
        ]
        logits = loaded.model(torch.tensor([row]))[0]
        total = total + sum(cost(logits[1 + i], words[i]) for i in hidden)
    return total, len(words)


def of_label(loaded: Any, pair: tuple[str, str]) -> tuple[Any, int]:
    row = [BERT_WORDS.start, *BERT_WORDS.encode(pair[0]), BERT_WORDS.end]
    return cost(loaded.model(torch.tensor([row]))[0], loaded.labels.index(pair[1])), 1


def of_picture(loaded: Any, pair: tuple[Any, str]) -> tuple[Any, int]:
    pixels = (torch.from_numpy(pair[0])[None, None] / 255 - 0.5) / 0.5
    return cost(loaded.model(pixels)[0], loaded.labels.index(pair[1])), 1


DRAW = np.random.default_rng(0)
BARS = [(DRAW.integers(0, 255, (6, 6), dtype=np.uint8), label) for label in ("across", "down", "down")]
KINDS: dict[str, Any] = {
    "translator": (a_translator, PAIRS, of_translation),
    "language model": (a_speaker, TEXTS, of_text),
    "mask filler": (a_filler, [LINES[0] + " " + LINES[2], "a dog"], of_gaps),
    "classifier": (a_classifier, [(LINES[0], "good"), ("a dog", "bad"), (LINES[1], "bad")], of_label),
    "image classifier": (an_image_classifier, BARS, of_picture),
}


@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_those_of_the_loss_and_estimates_are_slopes_of_gates(kind: str) -> None:
    build, examples, spelt_out = KINDS[kind]
    loaded = build()
    found = inspect.head_importance(loaded, examples)

    def nll() -> float:
        with torch.no_grad():
            costs, counts = zip(*(spelt_out(loaded, example) for example in examples), strict=True)
        return sum(map(float, costs)) / sum(counts)

    count = sum(spelt_out(loaded, example)[1] for example in examples)
    assert found.count == count
    assert found.nll == pytest.approx(nll(), **TOLERANCE)
    names = [name for name, _ in attentions(loaded.model)]
    assert list(found.changes) == list(found.estimates) == names
    for name in (names[0], names[-1]):
        module: Any = loaded.model.get_submodule(name)
        with inspect.heads_off(loaded.model, {name: 1}):
            assert found.changes[name][1] == pytest.approx(nll() - found.nll, **TOLERANCE)
        slopes = [abs(slope(lambda: spelt_out(loaded, example)[0], module, 1)) for example in examples]  # noqa: B023
        assert found.estimates[name][1] == pytest.approx(sum(slopes) / count, rel=1e-3, abs=1e-5)


def slope(loss: Callable[[], Any], module: MultiHeadAttention, head: int) -> float:
    """dL/dxi, from one gate alone."""
    gate = torch.ones((), requires_grad=True)

    def change(contexts: torch.Tensor) -> torch.Tensor:
        parts = list(contexts.unbind(-2))
        parts[head] = parts[head] * gate
        return torch.stack(parts, -2)

    with heads_changed([(module, change)]):
        loss().backward()
    assert gate.grad is not None
    return float(gate.grad)


def test_the_gradient_of_a_gate_is_the_limit_of_turning_it_a_little() -> None:
    loaded = a_speaker()
    module: Any = loaded.model.get_submodule("layers.1.self_attention")
    losses = []
    for turned in (1 - 1e-3, 1 + 1e-3):
        gates = torch.tensor([[turned], [1.0]], dtype=torch.float64)
        with torch.no_grad(), heads_changed([(module, lambda contexts, gates=gates: (contexts * gates).float())]):
            losses.append(float(of_text(loaded, LINES[0])[0]))
    expected = (losses[1] - losses[0]) / 2e-3
    assert slope(lambda: of_text(loaded, LINES[0])[0], module, 0) == pytest.approx(expected, rel=2e-2, abs=2e-3)
    found = inspect.head_importance(loaded, [LINES[0]], exact=False, layers=1)
    assert found.estimates["layers.1.self_attention"][0] == pytest.approx(abs(expected) / 8, rel=2e-2, abs=1e-3)


def test_a_head_can_be_replaced_by_the_mean_of_what_it_reads() -> None:
    loaded = a_translator()
    found = inspect.head_importance(loaded, PAIRS, layers="decoder.layers.1.cross_attention", instead="mean")
    runs = [lambda pair=pair: of_translation(loaded, pair) for pair in PAIRS]
    means = inspect.head_means(loaded.model, runs)
    for head in range(2):
        with inspect.heads_off(loaded.model, {"decoder.layers.1.cross_attention": head}, means), torch.no_grad():
            costs, counts = zip(*(of_translation(loaded, pair) for pair in PAIRS), strict=True)
        change = sum(map(float, costs)) / sum(counts) - found.nll
        assert found.changes["decoder.layers.1.cross_attention"][head] == pytest.approx(change, **TOLERANCE)
    zeroed = inspect.head_importance(loaded, PAIRS, layers="decoder.layers.1.cross_attention")
    assert not np.allclose(
        zeroed.changes["decoder.layers.1.cross_attention"], found.changes["decoder.layers.1.cross_attention"]
    )


def test_examples_may_come_in_any_company() -> None:
    loaded = a_speaker()
    together = inspect.head_importance(loaded, TEXTS, exact=False)
    alone = [inspect.head_importance(loaded, [text], exact=False) for text in TEXTS]
    for name, estimates in together.estimates.items():
        apart = sum(known.estimates[name] * known.count for known in alone) / together.count
        np.testing.assert_allclose(estimates, apart, rtol=1e-3, atol=1e-6)
    assert together.nll == pytest.approx(sum(known.nll * known.count for known in alone) / together.count, rel=1e-5)


def test_a_text_longer_than_the_window_is_read_in_pieces() -> None:
    loaded = a_speaker(context=4)
    found = inspect.head_importance(loaded, [LINES[0]], layers=0)
    assert found.nll == pytest.approx(-loaded.score(LINES[0])[0].log_probability / found.count, **TOLERANCE)
    assert (found.estimates["layers.0.self_attention"] > 0).all()


def test_ranks_and_json_and_what_is_left_out() -> None:
    loaded = a_speaker()
    heard: list[int] = []
    found = inspect.head_importance(loaded, TEXTS, finished=heard.append)
    assert heard == [1, 1, 1, 1]
    ranked = found.ranked()
    assert [worth for *_, worth in ranked] == sorted(
        (worth for row in found.changes.values() for worth in row), reverse=True
    )
    assert found.as_dict()["changes"]["layers.0.self_attention"] == found.changes["layers.0.self_attention"].tolist()
    quick = inspect.head_importance(loaded, TEXTS, exact=False)
    assert quick.changes == {}
    assert quick.ranked()[0][2] == max(worth for row in quick.estimates.values() for worth in row)
    assert math.isfinite(quick.nll)
    assert all(parameter.grad is None for parameter in loaded.model.parameters())


def test_wrong_requests_are_refused_in_one_line() -> None:
    loaded = a_speaker()
    for examples, options, said in (
        ([], {}, "there are no examples"),
        (["..", ""], {"instead": "median"}, "'zero' or 'mean', not 'median'"),
        ([LINES[0]], {"layers": "encoder.*"}, "no attention matches layer"),
    ):
        with pytest.raises(UsageError, match=said):
            inspect.head_importance(loaded, examples, **options)
    with pytest.raises(UsageError, match="there is no label 'fine': choose one of bad, good"):
        inspect.head_importance(a_classifier(), [("a dog", "fine")])
    with pytest.raises(UsageError, match="example 1 is the text '', which has no word"):
        inspect.head_importance(a_filler(), ["a dog", ""])
    with pytest.raises(UsageError, match="a Tagger cannot be judged by examples here; these can: Translator, Lang"):
        judged(object.__new__(Tagger), ["a dog"])
