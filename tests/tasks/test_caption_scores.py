"""Scores of captions: values worked out by hand, a slow version of CIDEr-D, sacreBLEU's own word, and the baselines."""

import math
from itertools import combinations

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import UsageError
from regard.tasks.caption_baselines import best_constant, neighbour_captions
from regard.tasks.caption_scores import Cider, caption_scores, cider, longest_common, mean_interval, rouge

CAPTIONS = ["a dog runs in the snow", "two men on a bench", "a dog", "the child plays"]
REFERENCES = [
    ["a black dog runs in the snow", "the dog is running through snow", "a dog"],
    ["two men sit on a bench", "men on a bench"],
    ["a brown dog swims", "a wet dog in the water", "dog"],
    ["a child plays with a ball", "the child plays", "a small child", "the child plays outside"],
]


def test_cider_of_two_pictures_by_hand() -> None:
    """Two pictures, so a word of one of them weighs log 2 and a word of both nothing.

    "a cat" against "a cat": unigrams and bigrams match (1 each), there are no longer ones: 10 (1 + 1 + 0 + 0) / 4.
    "a cat" against "a red cat": of its unigrams `a` weighs nothing, (cat) . (red, cat) = 1 / sqrt 2; no bigram is
    shared; one word less: exp(-1 / 72).
    """
    references = [["a cat", "a red cat"], ["a dog"]]
    wanted = 10 / 4 * (2 + math.exp(-1 / 72) / math.sqrt(2)) / 2
    assert cider(["a cat", "a cat"], references).tolist() == pytest.approx([wanted, 0.0])


def test_a_word_said_too_often_is_counted_as_often_as_it_should_be_said() -> None:
    """cat cat cat against cat: min(3, 1) 1 / (3 1) = 1 / 3, two words too long, and bigrams that nobody has."""
    found = cider(["cat cat cat", "dog"], [["cat"], ["dog"]])
    assert found[0] == pytest.approx(10 / 4 * (1 / 3) * math.exp(-4 / 72))


def slow_cider(captions: list[str], references: list[list[str]]) -> list[float]:
    """The formula word by word, with lists and vectors over a written-out vocabulary."""

    def grams(text: str, n: int) -> list[str]:
        words = text.split()
        return [" ".join(words[i : i + n]) for i in range(len(words)) if i + n <= len(words)]

    scores = []
    for caption, known in zip(captions, references, strict=True):
        total = 0.0
        for n in range(1, 5):
            every = {gram for row in references for text in row for gram in grams(text, n)} | set(grams(caption, n))
            vocabulary = sorted(every)

            def vector(text: str, n: int = n, vocabulary: list[str] = vocabulary) -> np.ndarray:
                values = []
                for gram in vocabulary:
                    pictures = sum(any(gram in grams(other, n) for other in row) for row in references)
                    weight = math.log(len(references) / max(1, pictures))
                    values.append(grams(text, n).count(gram) * weight)
                return np.array(values)

            for reference in known:
                c, s = vector(caption), vector(reference)
                if c.any() and s.any():
                    likeness = np.minimum(c, s) @ s / np.linalg.norm(c) / np.linalg.norm(s)
                    gap = len(caption.split()) - len(reference.split())
                    total += likeness * math.exp(-(gap**2) / (2 * 6**2)) / len(known)
        scores.append(10 * total / 4)
    return scores


def test_cider_is_what_the_slow_version_says() -> None:
    np.testing.assert_allclose(cider(CAPTIONS, REFERENCES), slow_cider(CAPTIONS, REFERENCES), rtol=1e-12)
    assert cider(CAPTIONS, REFERENCES)[3] > 1


def test_rouge_by_hand() -> None:
    """`the child plays outside` shares all of `the child plays`: P = 3 / 4; R = 1 of the shorter reference."""
    found = rouge(["the child plays outside"], [["a child", "the child plays"]])[0]
    assert found == pytest.approx((1 + 1.44) * 0.75 * 1 / (1 + 1.44 * 0.75))
    assert rouge(["", "cat"], [["a"], ["dog"]]).tolist() == [0.0, 0.0]


def test_the_longest_common_subsequence_is_the_longest_of_all() -> None:
    first, second = list("abcabd"), list("bacda")
    shared = max(
        size
        for size in range(6)
        for chosen in combinations(first, size)
        if any(chosen == other for other in combinations(second, size))
    )
    assert longest_common(first, second) == shared
    assert longest_common([], second) == 0


def test_bleu_and_chrf_are_those_of_sacrebleu_with_all_references() -> None:
    scores = caption_scores(CAPTIONS, REFERENCES, samples=40)
    streams = [[row[place] if place < len(row) else None for row in REFERENCES] for place in range(4)]
    for order in range(1, 5):
        wanted = BLEU(tokenize="none", max_ngram_order=order).corpus_score(CAPTIONS, streams)
        assert scores.bleu[str(order)] == pytest.approx(wanted.score)
    assert scores.length_ratio == pytest.approx(wanted.sys_len / wanted.ref_len)
    assert scores.chrf == pytest.approx(CHRF().corpus_score(CAPTIONS, streams).score)
    assert scores.bleu["1"] > scores.bleu["4"] > 0
    assert "nrefs:var" in scores.signatures["BLEU-4"]
    assert "BLEU-4" in scores.told()
    assert "CIDEr-D" in scores.told()
    assert scores.cider_interval[0] < scores.cider < scores.cider_interval[1]


def test_an_interval_of_a_mean_narrows_with_the_number_of_pictures() -> None:
    draw = np.random.default_rng(0)
    few, many = (mean_interval(draw.random(count), 200, 1) for count in (20, 2000))
    assert few[1] - few[0] > 5 * (many[1] - many[0])
    assert many[0] < 0.5 < many[1]


@pytest.mark.parametrize(("captions", "references"), [([], []), (["a"], []), (["a"], [[]])])
def test_what_cannot_be_scored_is_refused(captions: list[str], references: list[list[str]]) -> None:
    with pytest.raises(UsageError):
        caption_scores(captions, references)


def test_the_best_constant_caption_is_the_best_of_all_training_captions() -> None:
    references = [*REFERENCES, ["a dog runs", "a dog runs in the park"], ["a dog runs on grass", "brown dog runs"]]
    judge = Cider(references)
    texts = {text for known in references for text in known}
    best = max(sum(judge.score(text, known) for known in references) for text in texts)
    chosen = best_constant(references)
    assert sum(judge.score(chosen, known) for known in references) == pytest.approx(best)


def test_a_neighbour_lends_the_caption_its_others_agree_with() -> None:
    known = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    references = [["a cat sleeps", "a cat sleeps on a bed", "yellow"], ["a dog"], ["snow"]]
    said = neighbour_captions(known, references, np.array([[0.9, 0.1], [0.1, 0.3]]))
    assert said == ["a cat sleeps", "a dog"]
