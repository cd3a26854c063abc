import logging
import random
import subprocess
import sys

import pytest
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import UsageError
from regard.tasks import metrics
from regard.tasks.metrics import bleu_by_length, translation_scores

WORDS = [
    "a",
    "cat",
    "dog",
    "bird",
    "sees",
    "the",
    "red",
    "old",
    "house",
    ",",
    "and",
    "near",
    ".",
    "Anna's",
    "well-known",
]


def some_translations(count: int, seed: int = 0, longest: int = 25) -> tuple[list[str], list[str]]:
    """References, and hypotheses that miss about every fifth word."""
    draw = random.Random(seed)
    references = [[draw.choice(WORDS) for _ in range(draw.randint(1, longest))] for _ in range(count)]
    hypotheses = [[w if draw.random() < 0.8 else draw.choice(WORDS) for w in line] for line in references]
    return [" ".join(line) for line in hypotheses], [" ".join(line) for line in references]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "none", "intl"])
def test_scores_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch, tokenize: str, lowercase: bool) -> None:
    hypotheses, references = some_translations(80)
    hypotheses = [line.title() for line in hypotheses]
    scores = translation_scores(hypotheses, references, tokenize=tokenize, lowercase=lowercase, samples=10)
    bleu, chrf = BLEU(tokenize=tokenize, lowercase=lowercase), CHRF(lowercase=lowercase)
    expected = bleu.corpus_score(hypotheses, [references])
    assert scores.bleu == pytest.approx(expected.score, rel=1e-12)
    assert scores.length_ratio == pytest.approx(expected.ratio)
    assert scores.chrf == pytest.approx(chrf.corpus_score(hypotheses, [references]).score, rel=1e-12)
    assert scores.count == 80


@pytest.mark.parametrize("seed", [12345, 7])
def test_intervals_and_signatures_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    hypotheses, references = some_translations(60)
    scores = translation_scores(hypotheses, references, samples=200, seed=seed)
    for metric, interval, signature in (
        (BLEU(), scores.bleu_interval, scores.bleu_signature),
        (CHRF(), scores.chrf_interval, scores.chrf_signature),
    ):
        expected = metric.corpus_score(hypotheses, [references], n_bootstrap=200)
        assert (interval[1] - interval[0]) / 2 == pytest.approx(expected._ci, rel=1e-4)
        assert signature == str(metric.get_signature())
        assert f"bs:200|seed:{seed}" in signature


def test_the_interval_holds_the_score_and_narrows_with_more_sentences() -> None:
    small = translation_scores(*some_translations(50), samples=200)
    large = translation_scores(*some_translations(800), samples=200)
    for scores in (small, large):
        assert scores.bleu_interval[0] < scores.bleu < scores.bleu_interval[1]
        assert scores.chrf_interval[0] < scores.chrf < scores.chrf_interval[1]
    widths = [scores.bleu_interval[1] - scores.bleu_interval[0] for scores in (small, large)]
    assert widths[1] < widths[0] / 2


def test_the_seed_decides_the_interval_and_nothing_else() -> None:
    texts = some_translations(50)
    first, again, other = (translation_scores(*texts, samples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.bleu == other.bleu
    assert first.bleu_interval != other.bleu_interval


def test_what_is_drawn_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = some_translations(30)
    together = translation_scores(*texts, samples=50)
    for at_once in (1, 30, 200):
        monkeypatch.setattr(metrics, "DRAWN_AT_ONCE", at_once)
        assert translation_scores(*texts, samples=50) == together


def test_the_environment_does_not_change_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = some_translations(20)
    before = translation_scores(*texts, samples=20)
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    assert translation_scores(*texts, samples=20) == before


def test_a_perfect_translation_scores_a_hundred_without_doubt() -> None:
    _, references = some_translations(20)
    references = [line + " one two three four" for line in references]
    scores = translation_scores(references, references, samples=20)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.bleu_interval == pytest.approx((100, 100))
    assert scores.length_ratio == 1


def test_translations_of_nothing_but_silence_score_zero() -> None:
    scores = translation_scores(["", ""], ["a cat", "a dog"], samples=10)
    assert (scores.bleu, scores.chrf, scores.length_ratio) == (0, 0, 0)
    assert translation_scores(["a"], [""], samples=10).length_ratio == 0


@pytest.mark.parametrize("tokenize", ["none", "13a"])
def test_sacrebleu_warns_nobody_of_tokenised_text(caplog: pytest.LogCaptureFixture, tokenize: str) -> None:
    """The evaluation says so itself, once and in its own words."""
    texts = ["a cat ."] * 120
    with caplog.at_level(logging.WARNING, "sacrebleu"):
        translation_scores(texts, texts, tokenize=tokenize, samples=1)
    assert not caplog.records


@pytest.mark.parametrize(
    ("hypotheses", "references", "options", "complaint"),
    [
        (["a"], ["a", "b"], {}, "1 hypotheses, 2 references"),
        ([], [], {}, "0 hypotheses"),
        (["a"], ["a"], {"tokenize": "13b"}, "'13b'; choose one of none, zh, 13a"),
        (["a"], ["a"], {"samples": 0}, "0 bootstrap samples"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    hypotheses: list[str], references: list[str], options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UsageError) as error:
        translation_scores(hypotheses, references, **options)  # type: ignore[arg-type]
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_importing_the_metrics_does_not_import_sacrebleu() -> None:
    program = "import sys, regard.tasks.metrics; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# By length


def test_each_bucket_scores_its_own_sentences() -> None:
    hypotheses, references = some_translations(200, longest=70)
    sources = [" ".join("x" * len(line.split())) for line in references]
    buckets = bleu_by_length(sources, hypotheses, references, samples=20)
    assert [bucket.label for bucket in buckets] == ["1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+"]
    assert sum(bucket.count for bucket in buckets) == 200
    own = [i for i, source in enumerate(sources) if 11 <= len(source.split()) <= 20]
    alone = translation_scores([hypotheses[i] for i in own], [references[i] for i in own], samples=20)
    assert buckets[1].count == len(own)
    assert buckets[1].bleu == pytest.approx(alone.bleu)
    assert buckets[1].interval == pytest.approx(alone.bleu_interval)


def test_an_edge_belongs_to_the_bucket_below_and_empty_buckets_are_left_out() -> None:
    sources = ["w " * length for length in (1, 2, 3, 9)]
    texts = ["a cat sees a dog"] * 4
    buckets = bleu_by_length(sources, texts, texts, edges=(2, 5, 8), samples=5)
    assert [(bucket.label, bucket.count) for bucket in buckets] == [("1-2", 2), ("3-5", 1), ("9+", 1)]
    assert all(bucket.bleu == pytest.approx(100) for bucket in buckets)


@pytest.mark.parametrize("edges", [(), (0, 5), (10, 10), (20, 10)])
def test_edges_that_do_not_rise_are_refused(edges: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="edges"):
        bleu_by_length(["a"], ["a"], ["a"], edges=edges)
