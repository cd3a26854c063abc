"""Luong's translators, every score with every alignment, against a loop that spells out the paper's equations."""

import pytest
import torch
from torch import Tensor

from attention.test_alignments import LOOPS
from attention.test_scores import EQUATIONS
from equations import read, shaken, stack_step, weighted_sum
from regard.attention import ALIGNMENTS, SCORES, record
from regard.errors import RegardError, UsageError
from regard.models.luong import PRESETS, Config, Luong

SIZES = dict(vocabulary=9, embedding_size=3, size=4, layers=1, reach=1, max_source=6, dropout=0.3)
SOURCES = [[3, 1, 4, 1, 5, 2], [8], [2, 6, 7, 1]]
TARGETS = [[5, 2, 7, 8], [1, 7, 3], [4, 3, 3, 1, 2, 6, 5]]  # the last is longer than its source


def network(**changes: object) -> Luong:
    torch.manual_seed(0)
    model = Luong(Config(**{**SIZES, **changes}))
    shaken(model)
    return model


def table(rows: list[list[int]], side: str) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(r)) + r if side == "left" else r + [0] * (width - len(r)) for r in rows])


def spelled_out(model: Luong, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Logits [target, vocabulary] and weights [target, source], word by word."""
    config, embedding = model.config, model.words.embedding.weight
    keys, ends = read(model.encoder.rnn, embedding[source], config.reverse)
    layers = []
    for number, (h, cell) in enumerate(ends):
        first = torch.tanh(model.bridge.states[number].weight @ h + model.bridge.states[number].bias)
        kept = first  # a GRU has no cell
        if config.cell == "lstm":
            kept = torch.tanh(model.bridge.cells[number].weight @ cell + model.bridge.cells[number].bias)
        layers.append((first, kept))
    said = torch.zeros(config.size)  # h~
    logits, looks = [], []
    for time, word in enumerate(target):
        fed = [said] if config.feeding else []
        layers = stack_step(model.decoder.rnn, torch.cat([embedding[word], *fed]), layers)
        h = layers[-1][0]
        scores = [EQUATIONS[config.score](model.attention.score, h, key, place) for place, key in enumerate(keys)]
        weights = LOOPS[config.align](model.attention.align, scores, h, time)
        said = torch.tanh(model.combine.weight @ torch.cat([weighted_sum(weights, keys), h]))
        logits.append((embedding if config.tied else model.words.output.weight) @ said)
        looks.append(torch.stack(weights))
    return torch.stack(logits), torch.stack(looks)


def check(model: Luong, side: str) -> Tensor:
    """A padded batch says and looks at what each of its sentences does word by word; gives the weights."""
    source, target = table(SOURCES, side), table(TARGETS, side)
    with record(model) as tape:
        logits = model(source, target)
    for row in range(len(SOURCES)):
        expected, looks = spelled_out(model, SOURCES[row], TARGETS[row])
        torch.testing.assert_close(logits[row, target[row] != 0], expected)
        found = tape["attention"][row, 0, : len(looks)]  # rows in the order of saying
        torch.testing.assert_close(found[:, source[row] != 0], looks)
        assert not found[:, source[row] == 0].any()
    return tape["attention"]


@pytest.mark.parametrize("feeding", [False, True], ids=["no feeding", "feeding"])
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_every_score_with_every_alignment_is_the_papers_equations(score: str, align: str, feeding: bool) -> None:
    check(network(score=score, align=align, feeding=feeding), "left" if feeding else "right")


@pytest.mark.parametrize("feeding", [False, True], ids=["no feeding", "feeding"])
@pytest.mark.parametrize(
    "changes",
    [
        dict(layers=3, reverse=True),
        dict(cell="gru", layers=2, bidirectional=True),
        dict(bidirectional=True, reverse=True, layers=2),
        dict(embedding_size=4, tied=True, cell="gru"),
        dict(bidirectional=True, size=5),  # an odd size cannot be halved: the encoder has four numbers
    ],
    ids=str,
)
def test_every_kind_of_encoder_and_decoder_is_the_papers_equations(changes: dict[str, object], feeding: bool) -> None:
    model = network(**changes, feeding=feeding)
    check(model, "left")
    check(model, "right")


def test_windows_follow_the_order_of_the_sentence_whichever_way_it_is_read() -> None:
    for reverse in (False, True):
        weights = check(network(align="local_m", reverse=reverse), "right")[0, 0]
        assert (weights[0] > 0).tolist() == [True, True, False, False, False, False]
        assert (weights[3] > 0).tolist() == [False, False, True, True, True, False]


def test_local_p_weights_do_not_sum_to_one_and_soft_ones_do() -> None:
    assert (check(network(align="local_p"), "right")[0].sum(-1) < 0.999).all()
    sums = check(network(align="soft"), "right").sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_a_reach_beyond_the_sentence_changes_only_what_the_gaussian_weighs(align: str) -> None:
    """A window wider than the sentence is no window: local_m becomes soft."""
    wide, source, target = network(align=align, reach=50), table(SOURCES, "left"), table(TARGETS, "left")
    soft_model = network()
    soft_model.load_state_dict(wide.state_dict(), strict=False)
    same = torch.allclose(wide(source, target), soft_model(source, target), atol=1e-5)
    assert same == (align in ("soft", "local_m"))


def test_feeding_feeds_what_was_said_into_the_next_step_only() -> None:
    model, source = network(feeding=True), table(SOURCES, "right")
    state = model.start(source)
    assert not state.fed.any()
    tokens = torch.tensor([5, 5, 5])
    _, state = model.step(tokens, state)
    logits, _ = model.step(tokens, state)
    changed = type(state)(state.memory, state.hidden, torch.zeros_like(state.fed), state.place)
    assert not torch.allclose(model.step(tokens, changed)[0], logits, atol=1e-3)
    unfed = network(feeding=False)
    _, state = unfed.step(tokens, unfed.start(source))
    changed = type(state)(state.memory, state.hidden, torch.zeros_like(state.fed), state.place)
    assert torch.equal(unfed.step(tokens, changed)[0], unfed.step(tokens, state)[0])


# Sizes


def lstm(inputs: int, size: int) -> int:
    return 4 * size * (inputs + size + 2)


def count(vocabulary: int, preset: str, **changes: object) -> int:
    with torch.device("meta"):
        model = Luong(Config(vocabulary=vocabulary, **{**PRESETS[preset], **changes}))
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_papers_size_has_the_papers_parameters() -> None:
    words = 2 * 50_000 * 1000
    encoder, decoder = 4 * lstm(1000, 1000), lstm(2000, 1000) + 3 * lstm(1000, 1000)
    bridges, general, combine = 8 * (1000 * 1000 + 1000), 1000 * 1000, 2000 * 1000
    whole = words + encoder + decoder + bridges + general + combine
    assert count(50_000, "paper") == whole
    assert count(50_000, "paper", feeding=False) == whole - 4 * 1000 * 1000
    assert count(50_000, "paper", score="dot") == whole - general
    assert count(50_000, "paper", align="local_p") == whole + 1000 * 1000 + 1000
    assert count(50_000, "paper", score="location") == whole - general + 512 * 1000
    config = Config(vocabulary=9, **PRESETS["paper"])
    assert (config.reach, config.dropout, config.feeding, config.reverse) == (10, 0.2, True, True)


def test_small_is_small() -> None:
    gru = 2 * 3 * 128 * (256 + 128 + 2) + 3 * 256 * (256 + 256 + 2)
    assert count(5000, "small") == 5000 * 256 + gru + (256 * 256 + 256) + 256 * 256 + 512 * 256
    assert set(PRESETS) == {"small", "paper"}


# Refusals


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (dict(score="dott"), r"no score called 'dott': choose one of dot, .*location"),
        (dict(align="global"), r"no alignment called 'global': choose one of soft, hard, local_m, local_p"),
        (dict(cell="rnn"), r"no recurrent cell called 'rnn': choose one of gru, lstm"),
        (dict(tied=True), r"read as 3 numbers but said from 4: model\.tied needs both sizes equal"),
        (dict(align="local_p", reach=0), r"at least 1 key.*not 0"),
        (dict(align="hard", expected=1.0), r"\[0, 1\), not 1\.0"),
        (dict(score="dot", size=5, bidirectional=True), r"sizes are 5 and 4: use the general"),
        (dict(dropout=1.0), r"dropout must lie in \[0, 1\), not 1\.0"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_in_one_line(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint) as error:
        network(**changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("changes", [dict(layers=0), dict(size=1, bidirectional=True)], ids=str)
def test_sizes_that_cannot_be_are_refused_in_one_line(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        network(**changes)


@pytest.mark.parametrize("feeding", [False, True])
def test_the_location_score_refuses_a_source_longer_than_it_knows_places_for(feeding: bool) -> None:
    model = network(score="location", feeding=feeding, max_source=6)
    six = torch.tensor([[1, 2, 3, 4, 5, 6, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]])
    assert torch.isfinite(model(six, torch.tensor([[1], [2]]))).all()  # padding needs no place
    seven = six.clone()
    seven[0, 6] = 7
    for ask in (
        lambda: model(seven, torch.tensor([[1], [2]])),
        lambda: model.step(torch.tensor([1, 2]), model.start(seven)),
    ):
        with pytest.raises(RegardError, match="knows 6 places but was given 7") as error:
            ask()
        assert "\n" not in str(error.value)
