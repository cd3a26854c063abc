"""The tree of a beam search against the search spelled out with lists."""

import json
from typing import Any

import pytest
import torch
from inspected import a_classifier, a_speaker, a_translator

from decoding.test_beam import END, START, VOCABULARY, Toy, beam_by_beam
from regard import inspect
from regard.decoding.beam import beam_search
from regard.errors import UsageError
from regard.inspect import BeamTree


def tree_of(toy: Toy, source: list[int], limit: int, beams: int, penalty: float = 1.0) -> BeamTree:
    return inspect.search_tree(toy, torch.tensor([source]), VOCABULARY, limit, beams=beams, length_penalty=penalty)


def said(tree: BeamTree, number: int) -> tuple[int, ...]:
    return tuple(node.token for node in tree.path(number))


def levels(toy: Toy, source: list[int], steps: int, beams: int) -> list[list[tuple[float, tuple[int, ...]]]]:
    """For each step the best 2 * beams candidates, found with lists."""
    going_on: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found = []
    for _ in range(steps):
        candidates = [
            (log_p + more, (*prefix, token))
            for log_p, prefix in going_on
            for token, more in enumerate(toy.next(source, prefix))
            if token != START
        ]
        candidates = sorted(candidates, key=lambda known: -known[0])[: 2 * beams]
        found.append(candidates)
        going_on = [known for known in candidates if known[1][-1] != END][:beams]
    return found


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_the_tree_holds_every_candidate_of_every_step(beams: int, penalty: float) -> None:
    toy = Toy(beams)
    tree = tree_of(toy, [2, 3], 6, beams, penalty)
    steps = max(node.step for node in tree.nodes)
    for step, expected in enumerate(levels(toy, [2, 3], steps, beams), 1):
        nodes = [node for node in tree.nodes if node.step == step]
        assert [said(tree, node.number) for node in nodes] == [tokens for _, tokens in expected]
        for node, (log_p, tokens) in zip(nodes, expected, strict=True):
            assert node.total == pytest.approx(log_p, abs=1e-4)
            assert node.score == pytest.approx(log_p / step**penalty, abs=1e-4)
            assert node.log_probability == pytest.approx(toy.next([2, 3], tokens[:-1])[tokens[-1]], abs=1e-4)


@pytest.mark.parametrize("beams", [1, 2, 3, 5])
def test_every_hypothesis_of_the_search_is_a_node_with_its_very_score(beams: int) -> None:
    toy = Toy(beams)
    for number in range(4):
        tree = tree_of(toy, [number], 5, beams)
        (found,) = beam_search(toy, torch.tensor([[number]]), VOCABULARY, [5], beams=beams)
        assert list(tree.hypotheses) == found
        ranked = {node.rank: node for node in tree.nodes if node.rank is not None}
        assert sorted(ranked) == list(range(len(found)))
        for rank, known in enumerate(found):
            node = ranked[rank]
            assert (node.total, node.score) == (known.log_probability, known.score)
            assert [token for token in said(tree, node.number) if token != END] == known.tokens
            assert node.fate == ("finished" if known.finished else "cut")
        expected = beam_by_beam(toy, [number], 5, beams, 1.0)
        assert [known.tokens for known in found] == [known.tokens for known in expected]


def test_every_candidate_has_one_fate_and_its_reason() -> None:
    fates: set[tuple[str, str]] = set()
    for seed in range(12):
        tree = tree_of(Toy(seed), [seed % 5], 4, 2)
        last = max(node.step for node in tree.nodes)
        for step in range(1, last + 1):
            nodes = [node for node in tree.nodes if node.step == step]
            going_on = [node for node in nodes if node.token != END]
            for place, node in enumerate(nodes):
                if node.token == END:
                    assert node.fate == ("finished" if place < 2 else "pruned")
                elif going_on.index(node) >= 2:
                    assert node.fate == "pruned"
                elif step < last:
                    assert node.fate == "kept"
                else:
                    assert node.fate == ("cut" if last == 4 else "abandoned")
                assert bool(tree.children(node.number)) == (node.fate == "kept")
                fates.add((node.fate, node.why))
    assert {fate for fate, _ in fates} == {"kept", "pruned", "finished", "cut", "abandoned"}
    assert ("finished", "it ends, and is among the 2 most probable candidates; 2 others score better") in fates
    assert ("pruned", "it ends, but 2 candidates are more probable") in fates


def test_a_search_that_is_watched_finds_what_it_always_finds() -> None:
    toy, source = Toy(3), torch.arange(5)[:, None]
    seen: list[Any] = []
    watched = beam_search(toy, source, VOCABULARY, [3, 6, 4, 1, 5], beams=3, watch=seen.append)
    assert watched == beam_search(toy, source, VOCABULARY, [3, 6, 4, 1, 5], beams=3)
    assert [step.length for step in seen] == list(range(1, len(seen) + 1))
    assert seen[0].sentences == [0, 1, 2, 3, 4]
    assert 3 not in seen[1].sentences


def test_the_tree_of_a_translator_is_the_search_it_translates_with() -> None:
    loaded = a_translator()
    tree = inspect.beam_tree(loaded, "the cat sat")
    best = loaded.translate("the cat sat", num_return_sequences=3)[0].nbest
    assert [known.tokens for known in tree.hypotheses] == [known.tokens for known in best]
    assert [known.score for known in tree.hypotheses] == [known.score for known in best]
    first = tree.nodes[0]
    assert first.piece == loaded.tokenizer.pieces([first.token])[0]
    assert (tree.beams, tree.length_penalty) == (3, 1.0)
    written = json.loads(json.dumps(tree.as_dict(), allow_nan=False))
    assert written["nodes"][0]["why"] == first.why
    assert written["hypotheses"][0]["tokens"] == best[0].tokens
    narrow = inspect.beam_tree(loaded, "the cat sat", num_beams=1, length_penalty=0.0, max_new_tokens=2)
    assert max(node.step for node in narrow.nodes) <= 2
    assert narrow.nodes[0].score == narrow.nodes[0].total
    with pytest.raises(UsageError, match="nothing to search for in an empty text"):
        inspect.beam_tree(loaded, "")
    with pytest.raises(UsageError, match="a Classifier makes no beam search"):
        inspect.beam_tree(a_classifier(), "the cat")  # type: ignore[arg-type]


def test_the_tree_of_a_language_model_goes_on_from_its_prompt() -> None:
    loaded = a_speaker()
    tree = inspect.beam_tree(loaded, "the cat", num_beams=2, max_new_tokens=4)
    best = loaded.generate("the cat", num_beams=2, max_new_tokens=4, num_return_sequences=2)[0].nbest
    assert [known.tokens for known in tree.hypotheses] == [known.tokens for known in best]
    assert [known.score for known in tree.hypotheses] == [known.score for known in best]
