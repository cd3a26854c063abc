"""Whole inputs through the real Transformer: order, batches, and the cache against the full pass."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from jaxtyping import config as shape_checks

from regard.decoding.generate import generate, padded
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.models.transformer import Config, Transformer

PAD, START, END, WORDS = 0, 1, 2, 14
VOCABULARY = Vocabulary(START, END, never=(PAD, START))
SETTINGS = {
    "greedy": Decoding(num_beams=1, max_new_tokens=5),
    "beam": Decoding(num_beams=3, max_new_tokens=5, length_penalty=0.8),
    "sampling": Decoding(num_beams=1, do_sample=True, top_k=6, temperature=1.3, max_new_tokens=5),
}


def small_transformer(seed: int, *, pre_norm: bool = False) -> Transformer:
    torch.manual_seed(seed)
    config = Config(
        WORDS,
        size=16,
        hidden_size=24,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        dropout=0.5,
        pre_norm=pre_norm,
        pad=PAD,
    )
    model = Transformer(config)
    with torch.no_grad():  # fresh weights say the same whatever they read: make them care
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and name != "embedding.weight":
                parameter.mul_(4)
    return model.eval()


def some_sources(count: int, seed: int = 0) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (count,), generator=draw).tolist()
    return [[*torch.randint(3, WORDS, (length,), generator=draw).tolist(), END] for length in lengths]


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """A decoder makes thousands of small calls; checking their shapes costs far more than the calls themselves."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return small_transformer(0 if request.param else 3, pre_norm=request.param)


def changed(settings: Decoding, **values: object) -> Decoding:
    return Decoding(**{**vars(settings), **values})


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[(known.tokens, known.finished) for known in each] for each in found] == [
        [(known.tokens, known.finished) for known in each] for each in expected
    ]
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)


def teacher_forced(model: Transformer, source: list[int], known: Hypothesis) -> float:
    """log p of a hypothesis in one pass over all of it, without cache, batch or padding."""
    said = [*known.tokens, *[END] * known.finished]
    told = [START, *said[:-1]]
    with torch.inference_mode():
        log_p = model(torch.tensor([source]), torch.tensor([told])).log_softmax(-1)
    return sum(log_p[0, place, token].item() for place, token in enumerate(said))


@pytest.mark.parametrize("way", SETTINGS)
def test_results_do_not_depend_on_how_sentences_are_batched(model: Transformer, way: str) -> None:
    sources, settings = some_sources(6), SETTINGS[way]
    together = generate(model, sources, VOCABULARY, settings, pad=PAD)
    for batch_tokens in (1, 10 * settings.num_beams):
        found = generate(model, sources, VOCABULARY, changed(settings, batch_tokens=batch_tokens), pad=PAD)
        assert_same(found, together)


@pytest.mark.parametrize("way", ["greedy", "beam"])
def test_sources_come_back_in_their_order(model: Transformer, way: str) -> None:
    sources = some_sources(8, seed=1)
    found = generate(model, sources, VOCABULARY, SETTINGS[way], pad=PAD)
    assert len({tuple(each[0].tokens) for each in found}) > 3  # otherwise any order would do
    backwards = generate(model, sources[::-1], VOCABULARY, SETTINGS[way], pad=PAD)
    assert_same(backwards[::-1], found)
    for place in (0, 5):
        assert_same(generate(model, [sources[place]], VOCABULARY, SETTINGS[way], pad=PAD), [found[place]])


@pytest.mark.parametrize("way", SETTINGS)
def test_cached_decoding_gives_the_probability_of_the_full_pass(model: Transformer, way: str) -> None:
    sources = some_sources(6, seed=2)
    found = generate(model, sources, VOCABULARY, SETTINGS[way], pad=PAD)
    for source, hypotheses in zip(sources, found, strict=True):
        assert len(hypotheses) == SETTINGS[way].num_beams
        for known in hypotheses:
            assert known.log_probability == pytest.approx(teacher_forced(model, source, known), abs=1e-4)


def test_shapes_fit_when_they_are_checked(model: Transformer) -> None:
    shape_checks.update("jaxtyping_disable", False)
    for source in ([5, END], [5, 6, 7, END]):  # a target of the source's length, and of another
        ((known, _),) = generate(model, [source], VOCABULARY, Decoding(num_beams=2, max_new_tokens=2), pad=PAD)
        assert known.log_probability == pytest.approx(teacher_forced(model, source, known), abs=1e-4)


def test_greedy_takes_the_best_token_of_the_full_pass(model: Transformer) -> None:
    source = some_sources(1, seed=3)[0]
    told = [START]
    with torch.inference_mode():
        while len(told) <= 5 and told[-1] != END:
            logits = model(torch.tensor([source]), torch.tensor([told]))[0, -1]
            logits[[PAD, START]] = -torch.inf
            told.append(int(logits.argmax()))
    ((known,),) = generate(model, [source], VOCABULARY, SETTINGS["greedy"], pad=PAD)
    assert known.tokens == [token for token in told[1:] if token != END]


def test_samples_of_another_seed_are_others(model: Transformer) -> None:
    sources = some_sources(9)
    found = [generate(model, sources, VOCABULARY, changed(SETTINGS["sampling"], seed=s), pad=PAD) for s in (0, 1)]
    assert [each[0].tokens for each in found[0]] != [each[0].tokens for each in found[1]]


def test_the_limit_grows_with_each_source_unless_it_is_given(model: Transformer) -> None:
    assert Decoding().limit(4) == 18
    assert Decoding(max_new_tokens=3).limit(4) == 3
    never_ends = Vocabulary(START, WORDS - 1, never=(PAD, START, WORDS - 1))
    sources = [[5, END], [5, 6, 7, END]]
    found = generate(model, sources, never_ends, Decoding(num_beams=2), pad=PAD)
    assert [len(each[0].tokens) for each in found] == [14, 18]
    assert not any(known.finished for each in found for known in each)


def test_nothing_in_nothing_out(model: Transformer) -> None:
    told: list[int] = []
    for settings in SETTINGS.values():
        assert generate(model, [], VOCABULARY, settings, pad=PAD, finished=told.append) == []
    assert told == []


def test_every_finished_sentence_is_told_once(model: Transformer) -> None:
    told: list[int] = []
    settings = changed(SETTINGS["greedy"], batch_tokens=20)
    generate(model, some_sources(9), VOCABULARY, settings, pad=PAD, finished=told.append)
    assert sum(told) == 9
    assert len(told) > 1


def test_generation_runs_without_dropout_and_leaves_the_mode_as_it_was() -> None:
    model, sources = small_transformer(3), some_sources(5)
    expected = generate(model, sources, VOCABULARY, SETTINGS["greedy"], pad=PAD)
    assert not model.training
    model.train()
    assert_same(generate(model, sources, VOCABULARY, SETTINGS["greedy"], pad=PAD), expected)
    assert model.training


def test_rows_are_filled_up_on_the_right() -> None:
    assert padded([[5, 6, 7], [], [8]], 9).tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert padded([], 9).shape == (0, 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(num_beams=0), "num_beams is 0"),
        (dict(num_beams=2, do_sample=True), "do_sample needs num_beams=1, but num_beams is 2: .* not implemented"),
        (dict(do_sample=True), "do_sample needs num_beams=1, but num_beams is 5: .* not implemented"),
        (dict(temperature=0.0), "temperature is 0.0"),
        (dict(temperature=-1.0), "temperature is -1.0"),
        (dict(top_p=0.0), "top_p is 0.0"),
        (dict(top_p=1.5), "top_p is 1.5"),
        (dict(top_k=0), "top_k is 0"),
        (dict(max_new_tokens=0), "max_new_tokens is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=rf"decoding\.{message}"):
        Decoding(**values)


DRAWS, SEARCHES = Decoding(num_beams=1, do_sample=True), Decoding(num_beams=4)


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        (SEARCHES, dict(do_sample=True), (1, True)),
        (SEARCHES, dict(do_sample=True, num_beams=1), (1, True)),
        (SEARCHES, dict(num_beams=2), (2, False)),
        (SEARCHES, dict(do_sample=False), (4, False)),
        (SEARCHES, dict(), (4, False)),
        (DRAWS, dict(), (1, True)),
        (DRAWS, dict(do_sample=True), (1, True)),
        (DRAWS, dict(num_beams=3), (3, False)),
        (DRAWS, dict(num_beams=1), (1, False)),
        (DRAWS, dict(do_sample=False), (1, False)),
    ],
)
def test_who_asks_for_samples_or_for_beams_gets_those(
    settings: Decoding, given: dict[str, Any], expected: tuple[int, bool]
) -> None:
    asked = settings.asked(**given)
    assert (asked.num_beams, asked.do_sample) == expected


@pytest.mark.parametrize("settings", [DRAWS, SEARCHES])
def test_samples_and_beams_together_are_refused(settings: Decoding) -> None:
    with pytest.raises(UsageError, match="do_sample needs num_beams=1, but num_beams is 2: beam sampling is not"):
        settings.asked(do_sample=True, num_beams=2)


def test_settings_at_the_edge_of_sense_are_taken() -> None:
    Decoding(num_beams=1, do_sample=True, temperature=1e-3, top_k=1, top_p=1.0, max_new_tokens=1)
